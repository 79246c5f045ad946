// SPDX-License-Identifier: Apache-2.0
// See convert.h.
#include "python/convert.h"

#include <cstring>
#include <memory>

#include "python/gil.h"

namespace slipstream::python {

namespace {

/// Gives a buffer back, from whatever thread drops the last image of it.
struct Borrowed {
  Py_buffer view{};
  ~Borrowed() {
    with_gil([this] { PyBuffer_Release(&view); });
  }
};

bool is_byte(const Py_buffer& view) { return view.itemsize == 1 && (view.format == nullptr || std::strcmp(view.format, "B") == 0); }

std::string shape_of(const Py_buffer& view) {
  std::string out = "(";
  for (int i = 0; i < view.ndim; ++i) out += (i > 0 ? ", " : "") + std::to_string(view.shape[i]);
  return out + ")";
}

/// Rows that do not lie in one piece (mirrored, every second pixel, planes): their pixels, one after the other.
std::shared_ptr<std::vector<uint8_t>> copied(const Py_buffer& view, Py_ssize_t height, Py_ssize_t width, Py_ssize_t channels) {
  auto out = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(height * width * channels));
  const Py_ssize_t channel_step = view.ndim == 3 ? view.strides[2] : 1;
  uint8_t* to = out->data();
  for (Py_ssize_t y = 0; y < height; ++y)
    for (Py_ssize_t x = 0; x < width; ++x)
      for (Py_ssize_t c = 0; c < channels; ++c)
        *to++ = static_cast<const uint8_t*>(view.buf)[y * view.strides[0] + x * view.strides[1] + c * channel_step];
  return out;
}

Image pixels_of(std::shared_ptr<Borrowed> borrowed) {
  const Py_buffer& view = borrowed->view;
  constexpr Py_ssize_t kMostSide = 1 << 16;
  const Py_ssize_t channels = view.ndim == 3 ? view.shape[2] : 1;
  const bool known = channels == 1 || channels == 3 || channels == 4;
  if (!known || view.shape[0] < 1 || view.shape[1] < 1 || view.shape[0] > kMostSide || view.shape[1] > kMostSide)
    throw py::value_error("image: expected height x width or height x width x 1, 3 or 4, got " + shape_of(view));
  const Py_ssize_t height = view.shape[0], width = view.shape[1];
  Image out{.pixels = static_cast<const uint8_t*>(view.buf),
            .width = static_cast<int32_t>(width),
            .height = static_cast<int32_t>(height),
            .channels = static_cast<int32_t>(channels),
            .row_bytes = view.strides[0],
            .owner = borrowed};
  const bool rows_lie = view.strides[1] == channels && (view.ndim == 2 || channels == 1 || view.strides[2] == 1);
  if (!rows_lie || view.strides[0] < width * channels) {
    auto copy = [&] {
      const Unlocked free;
      return copied(view, height, width, channels);
    }();
    out.pixels = copy->data();
    out.row_bytes = 0;
    out.owner = std::move(copy);
  }
  return out;
}

}  // namespace

const char* word_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInternal:
      return "internal";
    case ErrorKind::kUsage:
      return "usage";
    case ErrorKind::kBadInput:
      return "bad_input";
    case ErrorKind::kUnsupported:
      return "unsupported";
    case ErrorKind::kResource:
      return "resource";
    case ErrorKind::kCheckFailed:
      return "check_failed";
    case ErrorKind::kCancelled:
      return "cancelled";
  }
  return "internal";
}

void throw_error(const Error& error) {
  const py::object type = py::module_::import("slipstream._errors").attr("Error");
  const py::object raised = type(word_of(error.kind), to_valid_utf8(error.message));
  PyErr_SetObject(type.ptr(), raised.ptr());
  throw py::error_already_set();
}

bool is_path(py::handle object) { return py::isinstance<py::str>(object) || py::hasattr(object, "__fspath__"); }

std::string path_of(const char* name, py::handle object) {
  if (!is_path(object) && !py::isinstance<py::bytes>(object))
    throw py::type_error(std::string(name) + ": expected a path, got " + std::string(py::repr(object)));
  try {
    return py::module_::import("os").attr("fsencode")(object).cast<std::string>();
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_UnicodeEncodeError)) throw;
    throw py::value_error(std::string(name) + ": expected a path that the system can spell, got " + std::string(py::repr(object)));
  }
}

std::string text_of(const char* name, py::handle object) {
  if (!py::isinstance<py::str>(object))
    throw py::type_error(std::string(name) + ": expected str, got " + std::string(py::repr(object)));
  Py_ssize_t size = 0;
  const char* const utf8 = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
  if (utf8 == nullptr) {
    PyErr_Clear();
    throw py::value_error(std::string(name) + ": expected text that UTF-8 can hold, got a lone surrogate");
  }
  return {utf8, static_cast<size_t>(size)};
}

Image image_of(py::handle object) {
  if (is_path(object)) {
    const std::string path = path_of("image", object);
    return unlocked([&] { return read_image(path); });
  }
  py::object seen = py::reinterpret_borrow<py::object>(object);
  const bool array = py::hasattr(object, "__array_interface__") || py::hasattr(object, "__array__");
  if (!PyObject_CheckBuffer(object.ptr()) && array) seen = py::module_::import("numpy").attr("asarray")(object);
  if (!PyObject_CheckBuffer(seen.ptr()))
    throw py::type_error("image: expected a path, an encoded file's bytes or an array of pixels, got " +
                         std::string(py::str(py::type::of(object).attr("__name__"))));
  auto borrowed = std::make_shared<Borrowed>();
  if (PyObject_GetBuffer(seen.ptr(), &borrowed->view, PyBUF_STRIDES | PyBUF_FORMAT) != 0) throw py::error_already_set();
  const Py_buffer& view = borrowed->view;
  if (!is_byte(view)) throw py::type_error("image: expected 8-bit numbers without sign (numpy.uint8), got another type");
  if (view.ndim == 2 || view.ndim == 3) return pixels_of(std::move(borrowed));
  if (view.ndim != 1 || view.strides[0] != 1)
    throw py::value_error("image: expected two or three dimensions, got " + shape_of(view));
  const std::string_view bytes(static_cast<const char*>(view.buf), static_cast<size_t>(view.len));
  return unlocked([&] { return decode_image(bytes, "image"); });  // the buffer cannot move while it is borrowed
}

}  // namespace slipstream::python
