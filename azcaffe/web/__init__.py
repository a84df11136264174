# SPDX-License-Identifier: AGPL-3.0-or-later
"""Play and watch in the browser. Needs the extra `web` (FastAPI, uvicorn); nothing else in the package imports this."""
