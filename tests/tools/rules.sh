# shellcheck shell=bash
# rules.sh - rules.txt names for each rule of `ddprun check` a program that shows it; the tests that run this program see that the rule has
# given the verdict, or its place. Sourced.
rules_table=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/rules.txt

# rules_given JSON: lines "verdict | NAME" and "place | NAME".
rules_given() {
    sed -nE -e 's/^ *"rule": *"(.*)",$/verdict | \1/p' -e 's/^ *"place_rule": *"(.*)",$/place | \1/p' "$1"
}

# rules_shown WHERE: those that rules.txt says of a program, in the same form.
rules_shown() {
    awk -F ' *[|] *' -v where="$1" '!/^#/ && $3 == where && ($1 == "verdict" || $1 == "place") { print $1 " | " $2 }' "$rules_table"
}

# rules_missing WHERE JSON: those of them that the check has not given, each with what it has given.
rules_missing() {
    local line given
    given=$(rules_given "$2")
    while read -r line; do
        [ -z "$line" ] || grep -qxF "$line" <<<"$given" || echo "$line: not the rule, but ${given//$'\n'/, }"
    done < <(rules_shown "$1")
}
