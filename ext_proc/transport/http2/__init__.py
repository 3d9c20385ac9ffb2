"""The server side of HTTP/2 (RFC 9113), sans-I/O: bytes in, events and bytes out.

`frames` are the wire's words, `headers` reads header blocks, `stream` is the state of one stream, `limits` bounds
what a client may cost, `connection` puts them together. It knows nothing of gRPC, sockets or clocks: the transport
passes bytes and the time in. Server push, priorities and CONNECT are not offered.
"""
