# Completion of ddprun in fish, from what `ddprun --complete` lists (ddprun.bash): options, commands and theirs.
function __ddprun_words
    set -l words (commandline -opc)
    set -l lines ($words[1] --complete 2>/dev/null)
    set -l names (string match -rv ' ' -- $lines)
    set -l command -
    set -l wanted
    for word in $words[2..]
        if test -n "$wanted"
            set wanted
        else if string match -q -- '-*' $word
            set wanted (string replace -rf -- "^$command (. "(string replace -- -- '' $word)"|"(string sub -s 2 -- $word)" \S+) ([^-].*)\$" '$2' $lines)
        else if test $command = -; and contains -- $word $names
            set command $word
        else
            return # the program: its words are its own
        end
    end
    if test -n "$wanted"
        string match -q '*|*' -- $wanted; and string split '|' -- $wanted
        return
    end
    string replace -rf -- "^$command . (\S+) .*\$" '--$1' $lines
    string replace -rf -- "^$command ([^-]) .*\$" '-$1' $lines
    test $command = -; and printf '%s\n' $names help
end
complete -c ddprun -a '(__ddprun_words)'
