"""Reads a request's path, headers and body into a `RequestInfo`, once, and only the fields that routing needs.

Anything about the bytes and the fields of a request belongs here; which cluster or replica serves it does not.
Raises Refusal and nothing else. `ext_proc.decide` calls `request.parse_request`, and `span` to rename a model.

    request      the entry: limit, encoding, content type
    endpoint     path → Api, and the model of Azure's paths
    encoding     gzip and zstd, under the size limit
    careful      JSON → Body: in one decode, or field by field where a prompt fits no type
    body         the fields of Body, and which of them stay encoded
    structure    how much a JSON text holds, counted before it is decoded
    multipart    multipart/form-data → Body, without copying files
    surrogates   the escapes that are no text
    scalars      numbers, flags and strings as lenient clients write them
    prompt       text, token ids, media and tools, counted and fingerprinted in one walk
    fingerprint  the chain of hashes
    sources      where each endpoint keeps its prompt
    sampling     sequences, and the limit of each
    images       size, steps, pictures and LoRA adapters
    info         Body → RequestInfo, by endpoint
    span         where the model's name stands
"""
