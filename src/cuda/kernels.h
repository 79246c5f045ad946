// SPDX-License-Identifier: Apache-2.0
// The kernels of a pass on a device: what each is given, and the functions that launch them. Everything is device memory; counts that
// change from pass to pass are read on the device, so that a captured graph serves every pass of its size.
//
// Contract W: a row's numbers depend on the row and the ordered keys it sees (finite ones: a value that is not seen is multiplied by zero). A
// product's inner dimension is cut where its matrix says, whatever the rows, into about 132 runs: the tiles of a narrow matrix into equal parts, those
// of a wide one in a line. The sums of a tile's cuts are added in their order. Attention's keys are cut into units of 64 and chunks of 256 along
// what the row sees, units folded and chunks joined in their order.
#pragma once
#include <cstddef>
#include <cstdint>

namespace slip::cuda {

using Bf16 = uint16_t;

constexpr int kRowGroup = 64;      // passes of up to so many rows are captured
constexpr int kInnerStep = 64;     // inner numbers of a tile: a line of 128 bytes
constexpr int kTileChannels = 64;  // output channels of a tile
constexpr int kTileNumbers = kTileChannels * kInnerStep;
constexpr int kRuns = 132;        // of a product's steps: the processors of the device that it was measured on, on any device
constexpr int kStreamRows = 128;  // up to so many rows a product is done run by run, above them tile by tile
constexpr int kKeyUnit = 64;
constexpr int kKeyChunk = 256;  // keys of one piece of attention; partial sums of 33 floats per 256 keys and head width 32
constexpr int kMostQueries = 64, kFewQueries = 16;
constexpr int kWidestHead = 256;

/// Pieces of 16 bytes are permuted within their line so that eight lines' pieces c meet all banks: piece c of line r stands at c ^ (r % 8).
constexpr int line_place(int line, int k) { return (((k / 8) ^ (line % 8)) * 8) + k % 8; }

/// How many of each a pass has; the first thing in the device's copy of a pass. Of the wanted rows, the first `chosen` want no logits, and those
/// from `likely` on their largest ones.
struct PassCounts {
  int32_t rows = 0, wanted = 0, items = 0, chosen = 0, likely = 0, walks = 0;
};

/// A matrix w_NK in tiles of 64 channels x 64 inner numbers. bf16: 8 KiB each, [tile][step][channel][line_place]. With scales: bytes, 4 KiB each,
/// [tile][step][byte_place], weight = (byte - kByteZero) * scale of its channel. Padding is zero; the number of tiles is even.
struct Tiles {
  const void* data = nullptr;
  int32_t n = 0, k = 0;  // real channels and inner dimension
  int32_t tiles = 0, steps = 0;
  const float* scale_N = nullptr;  // of all channels of all tiles
};
constexpr int kByteZero = 128;

/// A byte's place in its tile, so that a thread of a warpgroup finds its 32 bytes in two pieces of 16. As the matrix instruction wants them: a warp has
/// 16 channels, its lane 4 g + t of them g and g + 8, and of each 16 inner numbers 2 t, 2 t + 1, 2 t + 8 and 2 t + 9. Those four of a channel are a word,
/// the first two in its even bytes.
constexpr int byte_place(int channel, int k) {
  const int lane = channel % 8 * 4 + k % 8 / 2, word = k / 16 * 2 + channel / 8 % 2;
  return channel / 16 * 1024 + word / 4 * 512 + lane * 16 + word % 4 * 4 + k % 2 * 2 + k / 8 % 2;
}

/// bf16 rows x_TK as products read them: [step of 64][room][line_place]; `room`: rows from one step to the next, a multiple of 8. Whoever
/// writes them writes zeros behind the last number of a row.
struct RowTiles {
  Bf16* data = nullptr;
  int32_t room = 0;
  constexpr Bf16* at(int row, int k) const {
    const size_t line = static_cast<size_t>(k / kInnerStep) * static_cast<size_t>(room) + static_cast<size_t>(row);
    return data + line * kInnerStep + static_cast<size_t>(line_place(row, k % kInnerStep));
  }
};

struct EmbedArgs {
  const PassCounts* counts;
  const int32_t* inputs_T;         // tokens
  const float* const* features_T;  // of each row: a feature row's numbers in place of the token's, or null
  Tiles embedding;
  float* x_TD;
};

/// out_TK = bf16(x_TD * rsqrt(mean(x^2) + eps) * gain_D); with `rows` row i is x[rows[i]].
struct NormArgs {
  const int32_t* count;
  const int32_t* rows;  // may be null
  const float* x_TD;
  const float* gain_D;
  float eps;
  int32_t width;
  RowTiles out_TK;
  int32_t together = 1;  // so many rows side by side in one of out; with more than one the width is a multiple of 8
};

enum class Then : int32_t {
  kStore,   // out_TN = sums + bias
  kAdd,     // out_TN += sums + bias
  kSwiglu,  // channels come eight of gate, eight of up: gated_TF = bf16(silu(gate) * up)
  kGelu,    // gated_TF = bf16(gelu(sums + bias)), the exact one
  kChoice   // choice_TB: what a tile's channels come to per row; with `out` the sums of rows from *chosen on as well
};

/// What logits come to, over the ids that their row allows: all that the host reads of a row. Those of parts of the vocabulary are joined
/// in the order of a fixed tree, so that the sum's bits are the row's own.
struct Choice {
  float largest;  // the lowest id's on a tie
  int32_t id;     // -1: no number among them
  float second;   // of the other ids; -inf where there is none
  float sum;      // of exp(logit - largest)
  int32_t nan;    // whether one was not a number
};

/// The ids that rows allow, a bit each: word v / 32 of a list holds id v's bit v % 32.
struct AllowedBits {
  const uint32_t* bits_LW;
  int32_t words;          // W of a list
  const int32_t* list_T;  // of each row; -1: every id
};

/// What the runs of a product leave for each other; any product may use it after the one before has ended.
struct Shares {
  float* sums = nullptr;        // share_numbers(rows)
  int32_t* arrivals = nullptr;  // a number per tile, zero between products
};
/// For products of up to `rows` rows, whose blocks have 8, 16, 32, 64 or 128.
constexpr size_t share_numbers(int rows) {
  size_t block = 8;
  while (block < static_cast<size_t>(rows) && block < kStreamRows) block *= 2;
  return 2 * kRuns * kTileChannels * block;
}

struct ProductArgs {
  const int32_t* count;  // rows
  Tiles w;
  RowTiles x_TK;
  const float* bias_N;  // may be null; in the order of the tiles' channels
  Then then;
  float* out;
  int32_t ldo;
  RowTiles gated;     // with kSwiglu and kGelu
  Choice* choice_TB;  // with kChoice
  const int32_t* chosen;
  AllowedBits allowed;
  Shares shares;
};

/// From qkv_TE: q rotated, normed where asked for, times its factors, bf16 and padded to `padded`; k and v into their slots.
struct PlaceArgs {
  const PassCounts* counts;
  const float* qkv_TE;
  const float *cos_TK2, *sin_TK2;
  const float *q_norm_K, *k_norm_K;  // may be null
  float eps;
  const float* q_scale_T;  // may be null
  float q_factor;          // softmax's scale times log2 e
  const int32_t* slots_T;
  int32_t heads, kv_heads, width, half, padded;
  Bf16 *q_THP, *keys_SGP, *values_SGP;
};

/// A piece of attention: up to 256 slots, and the rows that see them or their beginning.
struct Item {
  int32_t first_slot, slots, first_row, rows;
  uint32_t fresh = ~0U;  // bit u: a key of unit u is of this pass; the others' were there before it
};
struct ItemRow {
  int32_t row, sees, partial;  // `partial`: where the sums go
};

/// Rows side by side that see the same chunks, or the beginning of them: the slots of `items` items, of 256 each but for the last.
struct Walk {
  int32_t first_item, items, first_row, rows;
};

/// The whole of attention for rows in walks.
struct WalkArgs {
  const PassCounts* counts;
  const Walk* walks;
  const Item* items;
  const int32_t *slots, *sees_T;  // `sees_T`: how many slots of its walk a row sees
  const Bf16 *q_THP, *keys_SGP, *values_SGP;
  int32_t heads, kv_heads, width, padded;
  RowTiles out_TK;
  int32_t first_row = 0;  // of q_THP and out_TK
};

struct AttendArgs {
  const PassCounts* counts;
  const Item* items;
  const ItemRow* item_rows;
  const int32_t* slots;
  const Bf16 *q_THP, *keys_SGP, *values_SGP;
  int32_t heads, kv_heads, padded;
  float* sums_NHP;  // per partial and head
  float* tops_NH;   // in powers of two
  float* totals_NH;
};

struct JoinArgs {
  const PassCounts* counts;
  const int32_t* first_partial_T;  // rows + 1 numbers
  const float *sums_NHP, *tops_NH, *totals_NH;
  int32_t heads, width, padded;
  RowTiles out_TK;
  int32_t first_row = 0;  // of out_TK
};

/// Row r of out_PK = bf16(row source_P[r] of pixels_PN).
struct GatherArgs {
  const int32_t* source_P;
  const float* pixels_PN;
  int32_t width;
  RowTiles out_PK;
};

/// out_TR = bf16(x_TR * factor).
struct RoundArgs {
  const int32_t* count;
  const float* x_TR;
  float factor;
  int32_t width;
  RowTiles out_TR;
};

/// out_TE at `out` (stride ldo) = x_TD.
struct CopyArgs {
  const int32_t* count;
  const float* x_TD;
  int32_t width, ldo;
  float* out;
};

struct PickArgs {
  const int32_t* count;
  const Choice* choice_TB;
  int32_t tiles;
  Choice* out_T;
};

constexpr int kLikely = 16;  // logits of a row that the host reads at once
struct LikelyLogit {
  float logit;
  int32_t id;  // -1: there is no further number
};

/// out_TK: for each wanted row from counts->likely on its largest logits that are numbers, the largest first, the lower id on ties.
struct LikelyArgs {
  const PassCounts* counts;
  const float* logits_LV;  // line 0: of wanted row counts->chosen
  int32_t vocab;
  LikelyLogit* out_TK;
};

/// The smallest id whose cumulative probability exceeds u; KeptLogits::draw (lm/lm.h). Sums in double: of 32 ids in their order, of 1,024 in a
/// tree, of these in their order; whatever else a pass held.
struct DrawArgs {
  const float* logits_V;
  int32_t vocab;
  const uint32_t* bits_W;  // of allowed ids, as AllowedBits'; null: all
  double temperature, u;
  int32_t* out;  // -1: no such logit is finite
};

constexpr int kTapFractionBits = 22;  // BicubicTaps (image/bicubic.h), as are these
struct TapRange {
  int32_t first, count;
};

/// A picture along one axis; `in` and `out` have 3 bytes a pixel and no gaps.
struct ResizeArgs {
  const uint8_t* in;
  int32_t in_width;
  uint8_t* out;
  int32_t width, height;  // of `out`
  const TapRange* ranges;
  const int32_t* weights;
  int32_t stride;  // weights of an output
  bool down;
};

/// A resized picture in patches, merge x merge of them side by side: columns (channel, frame, y, x), the picture in every frame.
struct CutArgs {
  const uint8_t* rgb;
  int32_t width, height, patch, merge, frames;
  const float* table;  // 256 of each channel: what a byte becomes
  float* pixels_PN;    // of the picture's first patch
};

/// out_CE = an image's rows of features_CE, from first_cell on, each where its first patch's cell stands in the image.
struct PutCellsArgs {
  const float* features_CE;
  const int32_t* source_P;
  int32_t first_cell, cell_patches, width;
  float* out_CE;
};

using StreamHandle = void*;  // cudaStream_t

// `rows`, `items`: how many the grid has room for; the device's counts say how many there are.
void embed(const EmbedArgs& args, int rows, StreamHandle stream);
void norm(const NormArgs& args, int rows, StreamHandle stream);
void product(const ProductArgs& args, int rows, StreamHandle stream);
void place(const PlaceArgs& args, int rows, StreamHandle stream);
// Attention: where some `typical` items make up to `most_unit_blocks` blocks, a warp has a unit of keys, where more, it walks the units; the sums are
// the same.
constexpr int kMostUnitBlocks = 4 * kRuns;
void attend(const AttendArgs& args, int items, int queries, StreamHandle stream, int typical,
            int most_unit_blocks = kMostUnitBlocks);
void join(const JoinArgs& args, int rows, StreamHandle stream);
/// attend and join in one, to the same bits (of finite numbers), for passes that have enough rows to keep a device busy.
/// may_walk: whether heads of this width can, by their kernel and by the shared memory of the device that was chosen last.
bool may_walk(int width);
void walk(const WalkArgs& args, int walks, StreamHandle stream);
void gather(const GatherArgs& args, int rows, StreamHandle stream);
void round(const RoundArgs& args, int rows, StreamHandle stream);
void copy(const CopyArgs& args, int rows, StreamHandle stream);
void pick(const PickArgs& args, int rows, StreamHandle stream);
void likely(const LikelyArgs& args, int rows, StreamHandle stream);
void draw(const DrawArgs& args, StreamHandle stream);
void resize(const ResizeArgs& args, StreamHandle stream);
void cut(const CutArgs& args, StreamHandle stream);
void put_cells(const PutCellsArgs& args, int cells, StreamHandle stream);

}  // namespace slip::cuda
