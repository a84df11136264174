#!/usr/bin/env bash
# SPDX-License-Identifier: AGPL-3.0-or-later
# The image's entry point: a script or program by its name, anything else as a command of azcaffe. It replaces itself, so
# that the program itself gets the SIGTERM of `docker stop`.
case ${1:-} in
  */* | bash | sh | python3) exec "$@" ;;
  *) exec azcaffe "$@" ;;
esac
