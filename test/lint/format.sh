#!/bin/sh
# The tree is formatted as .clang-format says. Exit 77 (skipped) where clang-format is not installed.
command -v clang-format >/dev/null 2>&1 || exit 77
exec "$(dirname "$0")/../../tools/format" --check
