// SPDX-License-Identifier: Apache-2.0
// In place of the others where there is no Cairo.
#include "picture/picture.h"

namespace slip {

Result<std::string> draw_picture(const PictureInput&, FigureFormat) {
  return unsupported("picture: expected a build with Cairo (libcairo2-dev), got one without");
}

}  // namespace slip
