"""judge.py KIND CODE CODES CAUSES TENSOR SAYS FOLDER - what the last `ddprun check` made of a program, whose verdict.json, stdout and
stderr lie in FOLDER, in one word, and after it what the check said. KIND: wrong or right. CODES and CAUSES are words, TENSOR matches
"ROLE NUMBER TEXT", SAYS what names the cause, without regard to case, or of a right program what is printed; "-" and nothing are any.

Of wrong programs: equal; named: equal but for what is named as missing or as not compared, and what to do; other: another code, cause or tensor than
in the row, or another cause is named; first: the true cause is in the text, or the first of the advice; listed: it is in the rest of
it. Of right ones: fair, accused. Of both: hung.
"""
import json
import re
import sys

kind, code, codes, causes, tensor, says, folder = sys.argv[1:]
try:
    found = json.load(open(folder + "/verdict.json"))
except (OSError, ValueError):
    found = {}
stdout, stderr = open(folder + "/stdout").read(), open(folder + "/stderr").read()
missing = re.findall("^missing: .*", stdout, re.M)
unseen = re.findall("^(?:missing|not compared): .*", stdout, re.M)
text, advice = found.get("text") or " ".join(stderr.split()), found.get("advice") or ""
# Where the first of several causes ends.
first = re.split(";|, (?=(?:rows|memory|weights|values|records|data|random|shares|a (?:decision|rate|term|tensor|learning|loss))\\b)", advice)[0]
about = found.get("tensor") or {}
about = " ".join(str(about.get(name, "-")) for name in ("role", "number", "text")) if about else "none"
verdict = {"0": "equal", "1": "different", "3": "not comparable"}.get(code)


def names(words):
    return re.search(says, words, re.I | re.M) is not None


def fits(cell, is_so):
    return cell in ("", "-") or is_so


expected = (
    fits(codes, code in codes.split())
    and (codes or kind == "wrong" or code == "0")
    and fits(causes, str(found.get("cause")).replace("None", "null") in causes.split())
    and fits(tensor, re.search(tensor, about) is not None)
    and (verdict is None or found.get("verdict") == verdict)
)
if code in ("124", "137"):
    word = "hung"
elif kind == "right":
    is_said = re.search(says, stdout + stderr, re.M) and "a place in an equal program" not in stderr
    word = "accused" if not expected or code == "0" and missing or not is_said else "fair"
elif code == "0":
    word = "named" if says and unseen and names("\n".join(unseen + re.findall("^what to do: .*", stdout, re.M))) else "equal"
else:
    word = "other" if not expected else "first" if names(text + "\n" + first) else "listed" if names(text + "\n" + advice) else "other"
print(word, "code", code, found.get("cause") or "-", about, "|", text, "| what to do:", advice, *missing)
