-- wrk: POST the files named after `--` in turn, and print one line of JSON at the end.
local requests, at = {}, 0

function init(args)
  wrk.method = "POST"
  wrk.headers["content-type"] = "application/json"
  for _, name in ipairs(args) do
    local file = assert(io.open(name, "rb"))
    requests[#requests + 1] = wrk.format(nil, nil, nil, file:read("*a"))
    file:close()
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '\nRESULT {"requests": %d, "microseconds": %d, "p50_us": %.1f, "p99_us": %.1f, "errors": %d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
