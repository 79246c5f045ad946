// SPDX-License-Identifier: Apache-2.0
// What block diffusion could save at best on a model and its answers: the table "speed_of_light" of slipstream::limits.
#pragma once
#include <functional>
#include <vector>

#include "api/tools/limits_tables.h"
#include "base/result.h"
#include "engine/engine.h"

namespace slip::api {

/// One line for each way to fill the blocks of these requests' answers: a place a pass, what is sure (the preset's threshold), all that is
/// right at once, the certified fewest (limits/speed_of_light.h), and, beside diffusion, linear self-speculation. "passes" are a
/// block's, its last one over the finished block included; "tokens_a_pass" counts drawn places. Errors of the engine as they are: a model
/// without a mask token or a form whose fields have ends cannot diffuse. `tell`: answers done, of how many.
Result<Table> speed_of_light_table(Engine& engine, std::vector<Request> requests,
                                   const std::function<void(int64_t, int64_t)>& tell);

}  // namespace slip::api
