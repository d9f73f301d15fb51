# The rest of each wrapper that invocations.py writes: writes a call down for mlgo capture, and runs the real tool.
#
# Several processes write at the same time, and the number of a process may come again: names are counted. Checksums are
# of the words that are files when the tool has ended, and of the objects that a compiler names after its sources.
set -f
inside='' kept='|' number=0
while [ -e "$records/$$-$number" ] || [ -L "$records/$$-$number" ]; do number=$((number + 1)); done

# Response files, and those that are named in them.
keep_responses() {
  for word do
    case $word in @?*) ;; *) continue ;; esac
    case $kept in *"|$word|"*) continue ;; esac
    [ -f "${word#@}" ] || continue
    kept="$kept$word|"
    text=$(tr -d '\0' < "${word#@}"; echo .) # command substitution takes away line ends
    text=${text%.}
    printf '%s\0' "$word" "$text"
    inside="$inside $text"
    keep_responses $text
  done
}

name_files() {
  for word do
    case $word in
      -o?*) word=${word#-o} ;;
      -*) continue ;;
      *.[cCi] | *.cc | *.cpp | *.cxx | *.c++ | *.ii) word=${word##*/} && word=${word%.*}.o ;;
    esac
    if [ -f "$word" ]; then printf '%s\0' "$word"; fi
  done
}

{
  printf '%s\0' "$tool" "$program" "$PWD" "$#" "$@"
  keep_responses "$@"
} > "$records/$$-$number"
run "$@"
status=$?
{
  printf '\0'
  name_files "$@" a.out $inside | xargs -0r sha256sum 2> /dev/null
  printf '\0end\0'
} >> "$records/$$-$number"
exit $status
