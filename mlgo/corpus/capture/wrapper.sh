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

# A crate once more, to bitcode before optimization, if something of it ships. It is all that this call writes. What it
# tells of panics names no folder of this machine.
keep_crate() {
  case " $* " in *' proc-macro '* | *' build_script_'*) return ;; *--emit=*link*) ;; *) return ;; esac
  left=$#
  while [ "$left" -gt 0 ]; do
    word=$1 left=$((left - 1))
    shift
    case $word in
      --emit=*) continue ;;
      -C) case $1 in incremental=*) shift; left=$((left - 1)); continue ;; esac ;;
      --out-dir) shift; left=$((left - 1)); continue ;;
    esac
    set -- "$@" "$word"
  done
  run "$@" "--remap-path-prefix=$PWD=." --out-dir "$crates" "--emit=llvm-bc=$bitcode" -Ccodegen-units=1 -Cno-prepopulate-passes -Clto=off \
    -Clinker-plugin-lto=off > /dev/null 2>&1
}

{
  printf '%s\0' "$tool" "$program" "$PWD" "$#" "$@"
  keep_responses "$@"
} > "$records/$$-$number"
bitcode='' start=''
if [ "$tool" = rustc ]; then
  start=$crates/$$-$number bitcode=$crates/$$-$number.bc
  mkdir -p "$crates" && : > "$start"
fi
run "$@"
status=$?
[ -z "$bitcode" ] || [ "$status" != 0 ] || keep_crate "$@"
{
  printf '\0'
  name_files "$@" a.out "$bitcode" $inside | xargs -0r sha256sum 2> /dev/null
  printf '\0end\0'
} >> "$records/$$-$number"
# It has compiled before it links, and the link has a record of its own.
[ -z "$start" ] || { touch -r "$start" "$records/$$-$number"; rm -f "$start"; }
exit $status
