# SPDX-License-Identifier: AGPL-3.0-or-later
"""AlphaZero for board games over Caffe. Importing the package loads nothing heavy: neither NumPy nor Caffe."""

__version__ = "0.1.0"
