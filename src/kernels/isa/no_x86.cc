// SPDX-License-Identifier: Apache-2.0
// Where the processor is no x86-64: its fast paths refuse. A file of refusals instead of
// conditions in the callers.
#include "kernels/isa/ops.h"

namespace slip {

const Ops* avx2_ops() { return nullptr; }
const Ops* avxvnni_ops() { return nullptr; }
const Ops* avx512vnni_ops() { return nullptr; }
const Ops* avx512vbmi_ops() { return nullptr; }
const Ops* avx512_ops() { return nullptr; }
const Ops* amx_ops() { return nullptr; }

}  // namespace slip
