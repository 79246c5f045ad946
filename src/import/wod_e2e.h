// SPDX-License-Identifier: Apache-2.0
// Waymo Open Dataset, End-to-End Driving: frames of its TFRecords (message E2EDFrame), and the challenge's submission file.
// Field numbers: waymo-open-dataset, protos/end_to_end_driving_data.proto, end_to_end_driving_submission.proto, dataset.proto.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "import/crc.h"
#include "import/track.h"

namespace slip {

/// EgoTrajectoryStates. Ego frame of the frame's moment (x forward, y left, metres); vectors of one length or empty.
struct WodStates {
  std::vector<float> x, y, z, vx, vy, ax, ay;
  float preference_score = 0;  // of preference trajectories: 0 .. 10, -1 where there is none
};
struct WodImage {
  int64_t camera = 0;  // 1 front, 2 front left, 3 front right, others around the car
  Bytes jpeg;
};
struct WodCalibration {
  int64_t camera = 0, width = 0, height = 0;
  std::vector<double> intrinsic, extrinsic;  // 9 and 16 numbers
};
/// A frame; spans point into the record.
struct WodFrame {
  std::string name;
  int64_t timestamp_us = 0;
  std::vector<WodImage> images;
  std::vector<WodCalibration> calibrations;
  WodStates past, future;  // past: 16 at 4 Hz up to now; future: 20 at 4 Hz, empty in the test set
  int64_t intent = 0;      // 0 unknown, 1 straight on, 2 left, 3 right
  std::vector<WodStates> preferences;
};

/// Unknown fields are skipped; of a number that stands twice the last counts. kBadInput as WireReader, `name` opens the message.
Result<WodFrame> parse_wod_frame(Bytes record, std::string_view name);

/// What a record set keeps of a frame. kBadInput for a past of other than 16 states, numbers that are not finite, a picture that is none.
/// Side cameras that a frame lacks become grey; a frame without any camera gets no pictures. The intent "unknown" becomes straight on.
Result<ImportedRecord> record_of(const WodFrame& frame, std::string_view name);

struct WodPrediction {
  std::string frame;
  std::vector<float> x, y;  // 20 points at 4 Hz
};
struct WodSubmission {
  std::vector<WodPrediction> predictions;
  std::string account_name, method_name, parameters;
  std::vector<std::string> authors, pretraining;  // pretraining: public models that it started from
};
/// The bytes of an E2EDChallengeSubmission (a submission of type 1, end-to-end driving).
std::string wod_submission(const WodSubmission& submission);

}  // namespace slip
