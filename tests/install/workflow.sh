#!/usr/bin/env bash
# workflow.sh BUILD - the hosted workflow (.github/workflows/ci.yml): it has the shape of one, its table has each compiler and each release
# of headers that compilers.sh knows and no other, each script that it starts is there, and so is the preset.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/lib/lib.sh
python3 -c 'import yaml' 2>/dev/null || skip "no YAML for Python (package python3-yaml)"
work=$(mktemp -d "${TMPDIR:-/tmp}/ddprun-workflow.XXXXXX")
at_exit 'rm -rf "$work"'
shown=$work/out

cat >"$work/judge.py" <<'END'
import json, os, re, subprocess, sys, yaml

flow, script = yaml.safe_load(open(sys.argv[1])), open("tests/install/compilers.sh").read()
bad = []


def want(holds, why):
    if not holds:
        bad.append(why)


want(set(flow) == {"name", True, "permissions", "jobs"}, "keys at the top: %s" % sorted(map(str, flow)))  # YAML reads `on` as true
used = {"compiler": set(), "cuda": set(), "nccl": set()}
commands = []
for name, job in flow["jobs"].items():
    want(set(job) <= {"runs-on", "container", "timeout-minutes", "strategy", "steps"}, "keys of job %s: %s" % (name, sorted(job)))
    matrix = job.get("strategy", {}).get("matrix", {})
    cells = [{key: [value] for key, value in cell.items()} for cell in matrix.get("include", [])]
    cells.append({key: value for key, value in matrix.items() if key != "include"})
    for cell in cells:
        for key, values in cell.items():
            want(all(isinstance(value, str) for value in values), "%s: %s is no text" % (key, values))
            used.setdefault(key, set()).update(map(str, values))
    for step in job["steps"]:
        want(set(step) in ({"run"}, {"uses"}), "a step of job %s: %s" % (name, step))
        commands += [step["run"]] if "run" in step else []
    for named in re.findall(r"\$\{\{ *([^} ]*) *\}\}", json.dumps(job)):
        want(named.startswith("matrix.") and named[7:] in matrix, "job %s knows no %s" % (name, named))
known = {"compiler": set(re.search(r"^compilers=\((.*)\)$", script, re.M).group(1).split())}
for table in "cuda", "nccl":
    known[table] = set(re.findall(r"\[([0-9.]+)\]=", re.search(r"declare -A %s=\((.*?)\)$" % table, script, re.M | re.S).group(1)))
for key in known:
    want(used[key] == known[key], "%s: the table has %s, compilers.sh knows %s" % (key, sorted(used[key]), sorted(known[key])))
for command in commands:
    arguments = command.split()
    if arguments[0] == "bash":
        want(os.path.isfile(arguments[1]) and subprocess.run(["bash", "-n", arguments[1]]).returncode == 0, "no script: " + command)
    if "--preset" in arguments:
        presets = json.load(open("CMakePresets.json"))["configurePresets"]
        want(arguments[arguments.index("--preset") + 1] in [preset["name"] for preset in presets], "no preset: " + command)
want("bash .ci/run" in commands, "nothing starts .ci/run")
print("\n".join(bad) or "%d commands" % len(commands))
sys.exit(bool(bad))
END
judge() { python3 "$work/judge.py" "$1" >"$work/out" 2>&1; }
check "the workflow is right" judge .github/workflows/ci.yml
while IFS='|' read -r what from to; do
    sed "s,$from,$to," .github/workflows/ci.yml >"$work/broken.yml"
    check "it notices $what" eval '! judge "$work/broken.yml"'
done <<'END'
a compiler that is not known|clang-16|clang-17
a release that is missing|"2.20"\, |
a release that is a number|"12.4"|12.4
a script that is not there|cmake/setup.sh|cmake/set_up.sh
a preset that is not there|--preset release|--preset fast
a variable that is not in the table|matrix.cuda|matrix.CUDA
a key of another name|timeout-minutes|timeout
all tests left out|bash .ci/run|true
END
check "compilers.sh refuses a release that it does not know" bash -c "! bash tests/install/compilers.sh '${1:?usage: workflow.sh BUILD}' gcc 11.8"
finish
