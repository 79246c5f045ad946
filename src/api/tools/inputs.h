// SPDX-License-Identifier: Apache-2.0
// What a decoder reads beside its model, for check_inputs_kept.
#pragma once
#include "base/files/kept.h"
#include "slipstream/engine.h"

namespace slip::api {

/// What a decoder's words name that is there: calibrations, classifiers, earlier answers, folders of models and heads.
FilesByOption files_of_choice(const slipstream::DecoderChoice& choice);

}  // namespace slip::api
