// SPDX-License-Identifier: Apache-2.0
// CancelToken of the public interface (slipstream/error.h) by its name in here.
#pragma once
#include "slipstream/error.h"

namespace slip {

using slipstream::CancelToken;

}  // namespace slip
