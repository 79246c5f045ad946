// SPDX-License-Identifier: Apache-2.0
// The trainable model's door; contract in model_torch.h, the model in torch_model.h.
#include "train/model/model_torch.h"

#include <ATen/Parallel.h>

#include "train/model/torch_model.h"

namespace slip {

TrainModel::TrainModel(const ModelShape& shape, Precision precision, const TrainPlace& place)
    : impl_(std::make_unique<Impl>(shape, precision, place)) {}
TrainModel::TrainModel(TrainModel&&) noexcept = default;
TrainModel::~TrainModel() = default;
const ModelShape& TrainModel::shape() const { return impl_->shape; }
const ParameterTable& TrainModel::table() const { return impl_->table; }
Precision TrainModel::precision() const { return impl_->precision; }

template <class T>
std::span<T> TrainModel::values() {
  SLIP_CHECK(impl_->values.element_size() == sizeof(T), "double for kF64, else float");
  return {data<T>(impl_->values), static_cast<size_t>(impl_->table.size)};
}
template <class T>
std::span<T> TrainModel::gradients() {
  SLIP_CHECK(impl_->values.element_size() == sizeof(T), "double for kF64, else float");
  return {data<T>(impl_->gradients), static_cast<size_t>(impl_->table.size)};
}
template std::span<float> TrainModel::values<float>();
template std::span<double> TrainModel::values<double>();
template std::span<float> TrainModel::gradients<float>();
template std::span<double> TrainModel::gradients<double>();

void TrainModel::set_recompute(bool on) { impl_->recompute = on; }
void TrainModel::keep(std::span<const std::string> prefixes) { impl_->kept = impl_->table.runs_of(prefixes); }
void TrainModel::clear_gradients() { impl_->gradients.zero_(); }

LossSums TrainModel::forward_backward(const RowBatch& batch, double scale) {
  impl_->begin();
  const Tensor x = impl_->forward(batch);
  Tensor d_x = at::empty_like(x);
  const LossSums sums = impl_->head(batch, x, scale, &d_x);
  torch::autograd::backward({x}, {d_x});
  impl_->renew();
  impl_->runs.clear();
  impl_->bring_gradients();
  return sums;
}

LossSums TrainModel::loss(const RowBatch& batch) {
  const at::NoGradGuard no_grad;
  impl_->begin();
  return impl_->head(batch, impl_->forward(batch), 1, nullptr);
}

std::vector<float> TrainModel::logits(const RowBatch& batch) {
  const at::NoGradGuard no_grad;
  impl_->begin();
  const Tensor z = at::mm(impl_->forward(batch), impl_->leaf(impl_->table.head).t()).to(at::kCPU, at::kFloat).contiguous();
  return {data<float>(z), data<float>(z) + z.numel()};
}

std::vector<float> TrainModel::features(const RowBatch& batch) {
  const at::NoGradGuard no_grad;
  impl_->begin();
  impl_->renew();
  const Tensor f = impl_->image_features(batch).to(at::kCPU, at::kFloat).contiguous();
  return {data<float>(f), data<float>(f) + f.numel()};
}

void TrainModel::set_threads(int threads) { at::set_num_threads(threads); }

Status check_train_device(const std::string& device, std::string_view where) {
  if (device == "cpu") return {};
  const std::string_view number = std::string_view(device).starts_with("cuda:") ? std::string_view(device).substr(5) : "0";
  const bool digits = !number.empty() && number.size() <= 2 && number.find_first_not_of("0123456789") == std::string_view::npos &&
                      (number == "0" || number.front() != '0');
  if ((device != "cuda" && !device.starts_with("cuda:")) || !digits)
    return bad_input("{}: device: expected cpu, cuda or cuda:N, got {}", where, device);
  if (!at::hasCUDA()) return unsupported("{}: device: expected a libtorch with CUDA and a device for {}, got none", where, device);
  try {
    at::empty({1}, at::TensorOptions(at::Device(device)));
  } catch (const std::exception& e) {
    return unsupported("{}: device: expected {} to be there, got: {}", where, device, std::string_view(e.what()).substr(0, 200));
  }
  return {};
}

}  // namespace slip
