#compdef ddprun
# Completion of ddprun in zsh, from what `ddprun --complete` lists (ddprun.bash): options, commands and theirs; then the program's own.
_ddprun() {
    local command=- wanted= word key of letter name value i
    local -a lines names options
    local -A takes
    lines=(${(f)"$("$words[1]" --complete 2>/dev/null)"})
    names=(${lines:#* *} help)
    # By COMMAND and option, its value; behind the program, words are the program's own.
    for word in $lines; do
        read -r of letter name value <<<$word
        for key in ${name:+"$of --$name"} ${name:+"$of -${letter#-}"}; do
            [[ $key == *' -' ]] || takes[$key]=$value
        done
    done
    for ((i = 2; i < CURRENT; ++i)); do
        word=$words[i]
        if [[ -n $wanted ]]; then
            wanted=
        elif [[ $word == -* && $word != -- ]]; then
            key="$command $word"
            wanted=${takes[$key]#-}
        elif [[ $command == - && $word != -- ]] && (($names[(Ie)$word])); then
            command=$word
        elif [[ $command != (trace|report) ]]; then
            [[ $word != -- ]] || ((++i))
            words=("${(@)words[i,-1]}")
            ((CURRENT -= i - 1))
            _normal
            return
        fi
    done
    case $wanted in
    *'|'*) compadd -- ${(s:|:)wanted} ;;
    DIR) _files -/ ;;
    PATH | FILE) _files ;;
    ?*) ;;
    '')
        if [[ $words[CURRENT] == -* ]]; then
            for word in ${(k)takes}; do
                [[ $word != "$command "* ]] || options+=(${word#* })
            done
            compadd -- $options
        else
            [[ $command != - ]] || compadd -- $names
            _command_names -e
            _files
        fi
        ;;
    esac
}
_ddprun "$@"
