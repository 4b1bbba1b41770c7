import json
import math
import zlib
from base64 import b64encode

import numpy as np
import psutil
import pytest

from weir_policies.errors import StateError
from weir_policies.kernels.policy import pack_array, unpack_array


@pytest.mark.parametrize("numbers", [0, 1, 5000])
def test_an_array_comes_out_as_it_went_in(numbers):
    array = np.zeros((1, numbers))
    array[:, ::1500] = math.nan
    array[:, 1::1500] = -0.0

    unpacked = unpack_array(json.loads(json.dumps(pack_array(array))))

    assert unpacked.tobytes() == array.tobytes()
    assert unpacked.shape == array.shape


def test_what_is_zero_in_an_array_takes_no_memory_once_it_is_unpacked():
    array = np.zeros((1, 2**25), dtype=np.int64)
    array[0, :: 2**20] = 7
    packed = pack_array(array)
    del array
    process = psutil.Process()
    before = process.memory_info().rss

    unpacked = unpack_array(packed)

    assert process.memory_info().rss - before < unpacked.nbytes / 2
    assert unpacked.sum() == 7 * 2**5


def test_an_array_whose_bytes_do_not_fill_its_shape_is_refused():
    packed = pack_array(np.ones((1, 2000))) | {"shape": [1, 2001]}

    with pytest.raises(StateError, match=r"\(1, 2001\)"):
        unpack_array(packed)


@pytest.mark.parametrize(
    "damage", ["", "A", "AAAA", b64encode(zlib.compress(b"abc")[:-2]).decode()]
)
def test_an_array_whose_bytes_are_damaged_is_refused(damage):
    packed = pack_array(np.ones((1, 2000))) | {"data": damage}

    with pytest.raises(StateError, match="compressed array"):
        unpack_array(packed)
