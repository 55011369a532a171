#!/usr/bin/env bash
# maps_test.sh - maps.sh finds a room without a README, one whose README is too long, and one that names a file or a function that is not there;
# it is silent about right ones. Called by tests/run.sh.
set -euo pipefail
source "$(dirname "$0")/planted/lib.sh"
cd "$work"
mkdir -p room/inner other/part

# expect PATTERN WHAT: maps.sh says a line that matches PATTERN, or passes if it is empty.
expect() {
    finds "$1" "$2" env "MAPS_ROOT=$work" MAPS_ROOMS='room room/inner' bash "$lint/maps.sh"
}

right() {
    echo 'void room_open(void);' >room/room.h
    touch room/inner/deep.c other/part/far.sh
    printf 'Read `room.h`, then `deep.c`. Test: `other/part/near.sh`, `far.sh`. Call `room_open()`.\n' >room/README.md
    printf 'See `../room.h` and `*.c`.\n' >room/inner/README.md
    touch other/part/near.sh
    echo 'Short.' >CONTRIBUTING.md
}

right
expect '' 'right maps'
rm room/inner/README.md
expect '^room/inner has no README\.md' 'a room without a README'
right
for i in {1..251}; do printf 'word\n'; done >>room/inner/README.md
expect '^room/inner/README\.md has 25[0-9] words' 'a README that is too long'
right
for i in {1..1301}; do printf 'word\n'; done >CONTRIBUTING.md
expect '^CONTRIBUTING\.md has 1301 words' 'CONTRIBUTING.md that is too long'
right
echo 'And `gone.c`.' >>room/README.md
expect 'room/README\.md names gone\.c' 'a file that is nowhere'
right
echo 'And `far.sh`.' >>room/inner/README.md
expect 'room/inner/README\.md names far\.sh' 'a file of another room without its path'
right
echo 'And `other/far.sh`.' >>room/README.md
expect 'room/README\.md names other/far\.sh' 'a path that is wrong'
right
echo 'And `../gone.h`.' >>room/inner/README.md
expect 'room/inner/README\.md names \.\./gone\.h' 'a path upwards that is wrong'
right
echo 'And `room_shut()`.' >>room/README.md
expect 'names room_shut\(\)' 'a function that is nowhere'
finish 'wrong maps are found'
