# SPDX-License-Identifier: AGPL-3.0-or-later
"""The nets and solvers in `models/`: which they are, and the one place that writes them."""

from __future__ import annotations

from azcaffe.network.spec import NetSpec, SolverSpec, net_text, solver_text

# The published solver (SGD, 0.02, a quarter of it every 12,500 iterations), except that `net:` names an existing file.
_TIC_TAC_6_4 = SolverSpec(snapshot_prefix="net_tic_tac_6_4")
# What `azcaffe train --quick` uses, tuned for 12,000 steps in minutes.
_TIC_TAC_3_3 = SolverSpec(base_lr=0.05, stepsize=4000, display=500, snapshot=2000)

_OTHELLO_6 = SolverSpec(stepsize=4000, snapshot=500)

_NETS = {
    "net_tic_tac_6_4_1_res_block": NetSpec(6, 6, 36, blocks=1, name="TicTac_6_4_1_res_block"),
    "net_tic_tac_6_4_2_res_block": NetSpec(6, 6, 36, blocks=2, name="TicTac_6_4_2_res_block"),
    "net_tic_tac_6_4_batch_norm": NetSpec(6, 6, 36, blocks=1, batch_norm=True, name="TicTac_6_4_batch_norm"),
    "net_tic_tac_3_3_2_res_block": NetSpec(
        3, 3, 9, blocks=2, channels=32, value_units=64, filler="xavier", name="TicTac_3_3_2_res_block"
    ),
    "net_connect_6_7_4_2_res_block": NetSpec(6, 7, 7, blocks=2, name="Connect_6_7_4_2_res_block"),
    "net_othello_6_2_res_block": NetSpec(6, 6, 37, blocks=2, filler="xavier", name="Othello_6_2_res_block"),
}
_SOLVERS = {
    "solver_tic_tac_6_4": (_TIC_TAC_6_4, "net_tic_tac_6_4_2_res_block"),
    "solver_tic_tac_6_4_batch_norm": (_TIC_TAC_6_4, "net_tic_tac_6_4_batch_norm"),
    "solver_tic_tac_3_3": (_TIC_TAC_3_3, "net_tic_tac_3_3_2_res_block"),
    "solver_connect_6_7_4": (_TIC_TAC_6_4, "net_connect_6_7_4_2_res_block"),
    "solver_othello_6": (_OTHELLO_6, "net_othello_6_2_res_block"),
}


def shipped_files() -> dict[str, str]:
    """File name in `models/` -> content, of every net and solver that is shipped."""
    files = {f"{name}.prototxt": net_text(spec) for name, spec in _NETS.items()}
    for name, (spec, net) in _SOLVERS.items():
        prefixed = {field: getattr(spec, field) for field in SolverSpec.__slots__} | {"snapshot_prefix": net}
        files[f"{name}.prototxt"] = solver_text(SolverSpec(**prefixed), f"{net}.prototxt")
    return files
