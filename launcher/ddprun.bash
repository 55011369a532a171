# Completion of ddprun in bash: its options, as --help-all lists them, perhaps the word check and more of them, then the
# program and what that takes.

# One line for each option of the help on standard input: letter or "-", name, value's name or "-". The value stands one
# blank behind the name, the description at least two.
_ddprun_options() {
    sed -nE 's/^  (-(.),|   ) --([a-z-]+)( ([^ ]+))?(  .*)?$/\2 \3 \5/p' | sed -E 's/^ /- /; s/ $/ -/'
}

_ddprun() {
    local current=${COMP_WORDS[COMP_CWORD]} options word letter name value i
    options=$("${COMP_WORDS[0]}" --help-all 2>/dev/null | _ddprun_options)

    # What takes the word before the current one; behind the program, words are the program's own.
    local wanted=''
    for ((i = 1; i < COMP_CWORD; ++i)); do
        word=${COMP_WORDS[i]}
        if [[ -n $wanted ]]; then
            wanted=''
            continue
        fi
        if [[ $word != -* || $word == -- ]]; then
            [[ $word != check ]] || continue # options go on behind it
            [[ $word != -- ]] || ((++i))
            if [[ $word == doctor ]]; then # its own option, then the program
                if ((i == COMP_CWORD - 1)) && [[ $current == -* ]]; then
                    COMPREPLY=(--json)
                    return
                fi
                ((++i))
                [[ ${COMP_WORDS[i]} != --json ]] || ((++i))
                if ((i == COMP_CWORD)); then
                    break
                fi
            fi
            if [[ $word == predict ]]; then # its own options, each with a value, then the program or a folder
                for ((++i; i < COMP_CWORD; i += 2)); do
                    [[ ${COMP_WORDS[i]} == -* ]] || break
                done
                if ((i == COMP_CWORD)); then
                    if [[ $current == -* ]]; then
                        mapfile -t COMPREPLY < <(compgen -W '-n --ranks --link --steps --timeout --help' -- "$current")
                        return
                    fi
                    break
                fi
                ((i < COMP_CWORD)) || return # the value of an option
            fi
            if ((i < COMP_CWORD)); then
                _command_offset "$i"
                return
            fi
            break
        fi
        case $word in
        -np | --np | --nproc[-_]per[-_]node) wanted=N ;;
        esac
        while read -r letter name value; do
            [[ $value == - || ($word != "-$letter" && $word != "--$name") ]] || wanted=$value
        done <<<"$options"
    done

    case $wanted in
    *'|'*) mapfile -t COMPREPLY < <(compgen -W "${wanted//|/ }" -- "$current") ;;
    DIR) mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    PATH | FILE) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    ?*) COMPREPLY=() ;;
    '')
        if [[ $current == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "$(awk '{ print "--" $2 } $1 != "-" { print "-" $1 }' <<<"$options")" -- "$current")
        else
            mapfile -t COMPREPLY < <(
                compgen -W 'check doctor predict report scout trace' -- "$current"
                compgen -c -- "$current"
                compgen -f -- "$current"
            )
        fi
        ;;
    esac
}
complete -o filenames -F _ddprun ddprun
