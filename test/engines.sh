#!/bin/sh
# Installs the coding-agent CLIs that the live tests drive, each at the version whose behaviour was recorded.
#
#   sh test/engines.sh
#
# They go to target/engines (or $FIA_ENGINES_DIR), one folder a version, and stay there: a second run installs
# nothing. The paths are printed and kept in the file `paths`, where test/live.rs finds them. Needs npm, about
# 750 MB and a minute.
set -eu

claude=2.1.332
node=22.23.3 # pi 1.6.0 does not start on Node 20
pi=1.6.0

root=$(cd "$(dirname "$0")/.." && pwd)
engines=${FIA_ENGINES_DIR:-${CARGO_TARGET_DIR:-$root/target}/engines}
mkdir -p "$engines"
engines=$(cd "$engines" && pwd)

# install FOLDER PACKAGE FILE: FILE is proof that an earlier install ended well.
install() {
    if [ -e "$engines/$1/$3" ]; then
        return
    fi
    if ! command -v npm >/dev/null; then
        echo "error: npm is not installed, and $2 comes from it" >&2
        echo "hint: install Node with npm, then run this again" >&2
        exit 1
    fi
    echo "installing $2" >&2
    rm -rf "$engines/$1" "$engines/$1.part"
    mkdir "$engines/$1.part"
    # A version is always named: without one npm falls back, silently, to what fits the Node that runs it.
    npm install --prefix "$engines/$1.part" --no-audit --no-fund --loglevel=error "$2" >&2
    mv "$engines/$1.part" "$engines/$1"
    if [ ! -e "$engines/$1/$3" ]; then
        echo "error: $2 was installed, but has no $3" >&2
        exit 1
    fi
}

claude_program=node_modules/.bin/claude
node_program=node_modules/.bin/node
pi_script=node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js
install "claude-$claude" "@anthropic-ai/claude-code@$claude" "$claude_program"
install "node-$node" "node@$node" "$node_program"
install "pi-$pi" "@earendil-works/pi-coding-agent@$pi" "$pi_script"

cat >"$engines/paths.new" <<END
claude=$engines/claude-$claude/$claude_program
node=$engines/node-$node/$node_program
pi=$engines/pi-$pi/$pi_script
END
mv "$engines/paths.new" "$engines/paths"
cat "$engines/paths"
