"""What the fits of many jobs take of the one controller that looks after them."""

import asyncio
import threading
from dataclasses import replace

from tests.operator.tuning.tuning_setting import FLOW, TRUTHS, Setting
from weir_operator.tuning import fitting
from weir_policies.model.estimation import OperatorBelief, learn_keys
from weir_policies.model.keys import KeyShares, shares_of_groups, zipf_shares
from weir_simulator.fitting.samples import Samples


async def test_the_jobs_of_a_controller_are_fitted_one_at_a_time(tmp_path, monkeypatch):
    together = threading.Barrier(2, timeout=0.5)  # broken where nobody else comes
    met = []

    def read_samples(records, *, since):
        try:
            together.wait()
            met.append(True)
        except threading.BrokenBarrierError:
            met.append(False)
        return Samples(intervals=())  # it is only looked at who else fits

    monkeypatch.setattr(fitting, "read_samples", read_samples)
    fitters = []
    for name in ("trips", "fares"):
        (tmp_path / name).mkdir()
        setting = Setting(tmp_path / name, intervals=())
        setting.records.close()
        fitters.append(
            fitting.Fitter(tmp_path / name / "records.sqlite", setting.managers, slot=60.0)
        )

    await asyncio.gather(*(fitter.fit(FLOW, since=0.0) for fitter in fitters))

    assert met == [False, False]


async def test_a_fit_knows_what_the_loop_has_learned_of_keys(tmp_path):
    truths = tuple(replace(each, key_groups=720) for each in TRUTHS)
    setting = Setting(tmp_path, truths=truths)
    by_group = shares_of_groups(zipf_shares(1.2, 1000), 720)
    belief = learn_keys(OperatorBelief(), KeyShares(by_group=by_group, counted=1e6), 10)
    match = setting.managers["match"]
    match.load_state_dict({**match.state_dict(), "belief": belief.to_dict()})
    fitter = fitting.Fitter(tmp_path / "records.sqlite", setting.managers, slot=60.0)

    fitted = await fitter.fit(FLOW, since=0.0)
    setting.records.close()

    assert fitted.fit is not None
    assert fitted.fit.models["match"].fullest == belief.fullest
    assert fitted.fit.models["count"].fullest == ()
