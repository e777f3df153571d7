#!/bin/sh
# Each case is a command line and what it has to print.
failed=0
expect() {
    got=$(sh greet.sh $1)
    if [ "$got" = "$2" ]; then
        echo "ok    greet.sh $1"
    else
        echo "FAIL  greet.sh $1: expected '$2', got '$got'"
        failed=$((failed + 1))
    fi
}
expect "Ada" "Hello, Ada"
expect "--shout Ada" "HELLO, ADA"
expect "--shout" "HELLO, WORLD"
echo "$failed failed"
[ "$failed" -eq 0 ]
