# SPDX-License-Identifier: AGPL-3.0-or-later
"""The command line: one short file a subcommand, imported only when that subcommand runs."""
