-- wrk asks for the pages of the file in BENCH_URLS, one after the other.
local paths = {}
for url in io.lines(os.getenv("BENCH_URLS")) do
    paths[#paths + 1] = wrk.format("GET", url:match("^http://[^/]+(.*)$"))
end
local next_one = 0
function request()
    next_one = next_one % #paths + 1
    return paths[next_one]
end
