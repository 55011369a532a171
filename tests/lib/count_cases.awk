# count_cases.awk - ctest's JUnit file as one line a case: "passed NAME", "failed NAME", "skipped NAME: REASON".
# A test that cannot run here ends with exit code 77 after printing "skipped: REASON". Called by tests/run.sh.
function unescape(text)
{
    gsub(/&lt;/, "<", text); gsub(/&gt;/, ">", text); gsub(/&quot;/, "\"", text); gsub(/&apos;/, "'", text)
    gsub(/&#10;/, " ", text); gsub(/&amp;/, "\\&", text)
    return text
}
function attribute(line, name,    start)
{
    start = index(line, " " name "=\"")
    if (start == 0)
        return ""
    line = substr(line, start + length(name) + 3)
    return unescape(substr(line, 1, index(line, "\"") - 1))
}
function close_case()
{
    if (name == "")
        return
    if (outcome == "skipped")
        print "skipped " name ": " (reason != "" ? reason : "no reason printed")
    else
        print outcome " " name
    name = ""
}
/<testcase / {
    close_case()
    name = attribute($0, "name"); status = attribute($0, "status"); reason = ""
    outcome = status == "run" ? "passed" : status == "disabled" ? "skipped" : "failed"
    if (status == "disabled")
        reason = "disabled"
}
# A test that was not run for another reason than exit code 77 (its program is missing) is a failure.
/<skipped message="SKIP_RETURN_CODE/ { outcome = "skipped" }
/skipped: / && reason == "" { reason = $0; sub(/.*skipped: /, "", reason); sub(/<\/system-out>.*/, "", reason); reason = unescape(reason) }
/<\/testcase>/ { close_case() }
END { close_case() }
