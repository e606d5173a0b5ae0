#include "wmtp/tracking/tensorboard/event_proto.h"

#include <bit>

#include "wmtp/tracking/tensorboard/little_endian.h"

namespace wmtp::tracking::tensorboard {
namespace {

// Keys of fields: the number, shifted by three bits, and the wire type.
enum class Wire : unsigned { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
constexpr unsigned kDouble = 2, kString = 7;  // tensorflow.DataType
constexpr unsigned kTensorClass = 2;          // tensorflow.DataClass
constexpr unsigned kSessionStart = 1;         // tensorflow.SessionLog.SessionStatus
constexpr const char* kVersion = "brain.Event:2";

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7U) bytes.push_back(static_cast<char>(value | 0x80U));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

std::string key(unsigned number, Wire wire) {
  return varint((number << 3U) | static_cast<unsigned>(wire));
}

std::string varint_field(unsigned number, std::uint64_t value) {
  return key(number, Wire::varint) + varint(value);
}

std::string bytes_field(unsigned number, std::string_view bytes) {
  return key(number, Wire::bytes) + varint(bytes.size()) + std::string(bytes);
}

std::string moment_fields(const Moment& moment) {
  std::string fields = key(1, Wire::fixed64) + little_endian(moment.time_s);
  if (moment.step != 0) fields += varint_field(2, static_cast<std::uint64_t>(moment.step));
  return fields;
}

std::string tensor_value(std::string_view tag, std::string_view plugin, std::string_view tensor) {
  const std::string metadata =
      bytes_field(1, bytes_field(1, plugin)) + varint_field(4, kTensorClass);
  return bytes_field(1, bytes_field(1, tag) + bytes_field(8, tensor) + bytes_field(9, metadata));
}

}  // namespace

std::string version_event(double time_s) {
  return moment_fields({time_s, 0}) + bytes_field(3, kVersion);
}

std::string summary_event(const Moment& moment, std::string_view values) {
  return moment_fields(moment) + bytes_field(5, values);
}

std::string restart_event(const Moment& moment) {
  return moment_fields(moment) + bytes_field(7, varint_field(1, kSessionStart));
}

std::string scalar_value(std::string_view tag, double value) {
  return bytes_field(
      1, bytes_field(1, tag) + key(2, Wire::fixed32) + little_endian(static_cast<float>(value)));
}

std::string histogram_value(std::string_view tag, const Histogram& histogram) {
  std::string rows;
  for (std::size_t i = 0; i < histogram.counts.size(); ++i)
    for (const double cell :
         {histogram.edges[i], histogram.edges[i + 1], static_cast<double>(histogram.counts[i])})
      rows += little_endian(cell);
  std::string shape;
  for (const std::size_t size : {histogram.counts.size(), std::size_t{3}})
    shape += bytes_field(2, varint_field(1, size));
  return tensor_value(tag, "histograms",
                      varint_field(1, kDouble) + bytes_field(2, shape) + bytes_field(4, rows));
}

std::string text_value(std::string_view tag, std::string_view markdown) {
  return tensor_value(tag, "text",
                      varint_field(1, kString) + bytes_field(2, "") + bytes_field(8, markdown));
}

}  // namespace wmtp::tracking::tensorboard
