#!/bin/bash
# Double-click this file (macOS), or run it in a terminal, to set up and start the playground and open the page.
# Written for bash 3.2, the one that every Mac has.
set -u

script="${BASH_SOURCE[0]}"
# Follow links to the real file: readlink -f does not exist on older Macs.
while [ -L "$script" ]; do
    folder="$(cd -P "$(dirname "$script")" && pwd)"
    script="$(readlink "$script")"
    case "$script" in
        /*) ;;
        *) script="$folder/$script" ;;
    esac
done
project="$(cd -P "$(dirname "$script")" && pwd)"

# A Terminal window that was opened for this file shows nothing any more once the shell is gone.
hold_window() {
    if [ -t 0 ] && [ -t 1 ]; then
        printf '\nPress Return to close this window. '
        read -r _ || true
    fi
}

fail() {
    printf '\n%s\n' "$1" >&2
    hold_window
    exit "$2"
}

can_start_setup() {
    # Without Apple's developer tools /usr/bin/python3 is a stub that only opens a dialog.
    if [ "$(uname -s)" = Darwin ] && [ "$1" = /usr/bin/python3 ] && ! xcode-select -p >/dev/null 2>&1; then
        return 1
    fi
    "$1" -I -c 'import sys; sys.exit(sys.version_info < (3, 9))' >/dev/null 2>&1
}

find_python() {
    local name folder found
    for name in python3.14 python3.13 python3.12 python3.11 python3; do
        found="$(command -v "$name" 2>/dev/null)"
        if [ -n "$found" ] && can_start_setup "$found"; then
            printf '%s\n' "$found"
            return 0
        fi
        # Finder starts Terminal with a PATH that may lack the places where installers put Python.
        for folder in /opt/homebrew/bin /usr/local/bin \
            "/Library/Frameworks/Python.framework/Versions/${name#python}/bin" "$HOME/.local/bin" /usr/bin; do
            found="$folder/$name"
            if [ -x "$found" ] && can_start_setup "$found"; then
                printf '%s\n' "$found"
                return 0
            fi
        done
    done
    return 1
}

cd "$project" || fail "The project folder $project cannot be entered." 1

if [ ! -f bootstrap/__main__.py ]; then
    fail "The folder $project holds no playground: keep launch.command in the project folder (a link to it may lie anywhere)." 1
fi

python="$(find_python)" || fail "No Python 3.9 or newer was found on this computer.

Install one of Python 3.11 to 3.14, then start this file again:
  macOS            the installer from python.org, or: brew install python@3.13
  Debian, Ubuntu   sudo apt-get install python3 python3-venv" 1

"$python" -m bootstrap run --open ${1+"$@"}
code=$?
case "$code" in
    0 | 130 | 143) exit "$code" ;;
    *) fail "The playground ended with exit code $code; the lines above say why." "$code" ;;
esac
