// SPDX-License-Identifier: Apache-2.0
// The presets: named choices of a decoder's four parts, each after its paper. This table is the one place where a preset is spelled:
// method_of (method.h) reads it, and help and errors list it. The parts are the words of --schedule, --drafter, --verifier and --width.
//
// References: Nemotron-Labs-Diffusion (linear and quadratic self-speculation), Fast-dVLM, Fast-dDrive (scaffold speculation, block
// diffusion over sections), FastDriveCoT (fields), Leviathan 2211.17192 and OpenVLA + MiniVLA (draft-model), DFlash.
#pragma once
#include <array>
#include <string_view>

namespace slip {

struct Preset {
  std::string_view name;
  std::string_view schedule, drafter, verifier;
  std::string_view draft_length;  // empty: one token a pass
  bool lossy;
  std::string_view help;
};

/// No preset of parts: the quickest exact decoder for model, form and machine, chosen by whoever has them (forecast/automatic.h).
inline constexpr std::string_view kAutomatic = "auto";

inline constexpr std::array<Preset, 11> kPresets = {{
    {"ar", "text", "none", "exact", "", false, "one token a pass, fixed tokens too"},
    {"self-spec", "text", "diffusion", "exact", "fixed:8", false, "the model drafts blocks by diffusion and verifies them"},
    {"self-spec-quadratic", "text", "quadratic", "exact", "fixed:4", false, "drafts for every outcome in the verifying pass"},
    {"draft-model", "text", "model", "exact", "fixed:4", false, "a second, smaller model drafts"},
    {"dflash", "text", "dflash", "exact", "fixed:15", false, "a head on the model's own hidden states drafts"},
    {"text-diffusion", "text", "diffusion", "confidence", "fixed:8", true,
     "blocks of free text by diffusion, each begun by the next token"},
    {"scaffold-ar", "chain", "none", "exact", "", false, "fixed tokens forced, one pass per drawn token"},
    {"scaffold-spec", "chain", "diffusion", "exact", "blocks", false,
     "fixed tokens forced, the form's blocks drafted by diffusion"},
    {"section-diffusion", "sections", "diffusion", "confidence", "blocks", true, "block diffusion that commits what it is sure of"},
    {"fields", "fields", "none", "exact", "", false, "all fields whose parents are complete, side by side in every pass"},
    {"fields-spec", "fields", "diffusion", "exact", "fixed:16", false,
     "the same with drafts, children started on their parents' drafts"},
}};

/// The name of a preset, or `auto`, for lists that leave others out: a name that the table does not have does not compile.
consteval std::string_view preset(std::string_view name) {
  for (const Preset& p : kPresets)
    if (p.name == name) return p.name;
  return name == kAutomatic ? kAutomatic : throw "no row of the table has this name";
}

}  // namespace slip
