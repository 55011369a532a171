# Completion of ddprun in bash: its options and commands, each command's options, then the program and what that takes. All of it as
# `ddprun --complete` lists it: a line for each option, "COMMAND LETTER NAME VALUE", with "-" for ddprun itself and for what there is
# not; and one for each command, "COMMAND".

_ddprun() {
    local current=${COMP_WORDS[COMP_CWORD]} lines command='-' wanted='' word of letter name value i
    lines=$("${COMP_WORDS[0]}" --complete 2>/dev/null)

    # What takes the word before the current one; behind the program, words are the program's own.
    for ((i = 1; i < COMP_CWORD; ++i)); do
        word=${COMP_WORDS[i]}
        if [[ -n $wanted ]]; then
            wanted=''
            continue
        fi
        if [[ $word == -- ]]; then
            ((++i))
        fi
        if [[ $word != -* || $word == -- ]]; then
            if [[ $command == - && $word != -* ]] && grep -qxF -- "$word" <<<"$lines"; then
                command=$word
                continue
            fi
            if [[ $command$word == -help ]]; then
                mapfile -t COMPREPLY < <(compgen -W "$(awk 'NF == 1' <<<"$lines")" -- "$current")
                return
            fi
            case $command in
            trace | report) continue ;; # the folder, with options on both sides
            esac
            if ((i < COMP_CWORD)); then
                _command_offset "$i"
                return
            fi
            break
        fi
        case $word in
        -np | --np | --nproc[-_]per[-_]node) wanted=N ;;
        esac
        while read -r of letter name value; do
            [[ $of != "$command" || ${value:--} == - || ($word != "-$letter" && $word != "--$name") ]] || wanted=$value
        done <<<"$lines"
    done

    case $wanted in
    *'|'*) mapfile -t COMPREPLY < <(compgen -W "${wanted//|/ }" -- "$current") ;;
    DIR) mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    PATH | FILE) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    ?*) COMPREPLY=() ;;
    '')
        if [[ $current == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "$(awk -v of="$command" \
                '$1 == of && NF == 4 { print "--" $3 } $1 == of && NF == 4 && $2 != "-" { print "-" $2 }' <<<"$lines")" -- "$current")
        elif [[ $command == trace || $command == report ]]; then
            mapfile -t COMPREPLY < <(compgen -d -- "$current")
        else
            mapfile -t COMPREPLY < <(
                [[ $command != - ]] || compgen -W "$(awk 'NF == 1' <<<"$lines") help" -- "$current"
                compgen -c -- "$current"
                compgen -f -- "$current"
            )
        fi
        ;;
    esac
}
complete -o filenames -F _ddprun ddprun
