#include "wmtp/storage/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "wmtp/core/error.h"
#include "wmtp/core/utf8.h"
#include "wmtp/storage/header_scanner.h"

namespace wmtp::storage {
namespace {

constexpr std::size_t kMaxTensors = 1'000'000, kMaxRank = 64, kMaxNameBytes = 4096;

std::string in_quotes(std::string_view name) {
  return fmt::format("\"{:.80}{}\"", name, name.size() > 80 ? "..." : "");
}

class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::string_view origin) : scan_(text, origin, 8) {}

  void read(SafetensorsHeader& header) {
    scan_.expect('{');
    if (!scan_.take('}')) do {
        std::string name = scan_.string();
        scan_.expect(':');
        if (name == "__metadata__")
          read_metadata(header.metadata);
        else
          header.tensors.push_back(read_tensor(std::move(name)));
        if (header.tensors.size() > kMaxTensors) scan_.refuse("more than 1000000 tensors");
      } while (next_item('}'));
    scan_.end();
  }

 private:
  bool next_item(char close) {
    if (scan_.take(',')) return true;
    scan_.expect(close);
    return false;
  }

  void read_metadata(Metadata& metadata) {
    if (metadata_seen_) scan_.refuse("\"__metadata__\" occurs twice");
    metadata_seen_ = true;
    scan_.expect('{');
    if (scan_.take('}')) return;
    do {
      std::string key = scan_.string();
      scan_.expect(':');
      const std::string& value = scan_.string();
      if (!metadata.emplace(key, value).second)
        scan_.refuse(fmt::format("metadata key {} occurs twice", in_quotes(key)));
    } while (next_item('}'));
  }

  StoredTensor read_tensor(std::string name) {
    if (name.size() > kMaxNameBytes)
      scan_.refuse(fmt::format("a name of {} bytes, the limit is {}", name.size(), kMaxNameBytes));
    StoredTensor tensor;
    tensor.name = std::move(name);
    bool dtype = false, shape = false, offsets = false;
    scan_.expect('{');
    do {
      const std::string field = scan_.string();
      scan_.expect(':');
      if (field == "dtype" && !std::exchange(dtype, true))
        read_dtype(tensor);
      else if (field == "shape" && !std::exchange(shape, true))
        read_shape(tensor);
      else if (field == "data_offsets" && !std::exchange(offsets, true))
        read_offsets(tensor);
      else
        scan_.refuse(fmt::format("tensor {} has a repeated or unknown field {}",
                                 in_quotes(tensor.name), in_quotes(field)));
    } while (next_item('}'));
    if (!dtype || !shape || !offsets)
      scan_.refuse(fmt::format("tensor {} lacks {}", in_quotes(tensor.name),
                               !dtype   ? "dtype"
                               : !shape ? "shape"
                                        : "data_offsets"));
    check_size(tensor);
    return tensor;
  }

  void read_dtype(StoredTensor& tensor) {
    const std::string name = scan_.string();
    const auto dtype = stored_dtype(name);
    if (!dtype)
      scan_.refuse(fmt::format("tensor {} has the unknown dtype {}", in_quotes(tensor.name),
                               in_quotes(name)));
    tensor.dtype = *dtype;
  }

  void read_shape(StoredTensor& tensor) {
    scan_.expect('[');
    if (scan_.take(']')) return;
    do {
      const std::uint64_t extent = scan_.integer();
      if (extent > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        scan_.refuse(fmt::format("tensor {} has an extent of {}", in_quotes(tensor.name), extent));
      tensor.shape.push_back(static_cast<std::int64_t>(extent));
      if (tensor.shape.size() > kMaxRank)
        scan_.refuse(
            fmt::format("tensor {} has more than {} dimensions", in_quotes(tensor.name), kMaxRank));
    } while (next_item(']'));
  }

  void read_offsets(StoredTensor& tensor) {
    scan_.expect('[');
    tensor.begin = scan_.integer();
    scan_.expect(',');
    tensor.end = scan_.integer();
    scan_.expect(']');
  }

  void check_size(const StoredTensor& tensor) {
    if (tensor.end < tensor.begin)
      scan_.refuse(fmt::format("tensor {} ends at {}, before its begin {}", in_quotes(tensor.name),
                               tensor.end, tensor.begin));
    const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
    if (!bytes)
      scan_.refuse(fmt::format("tensor {}: the size of {} {} overflows or ends inside a byte",
                               in_quotes(tensor.name), name_of(tensor.dtype),
                               shape_text(tensor.shape)));
    if (*bytes != tensor.end - tensor.begin)
      scan_.refuse(fmt::format("tensor {}: {} {} needs {} bytes, its offsets span {}",
                               in_quotes(tensor.name), name_of(tensor.dtype),
                               shape_text(tensor.shape), *bytes, tensor.end - tensor.begin));
  }

  HeaderScanner scan_;
  bool metadata_seen_ = false;
};

void check_places(const SafetensorsHeader& header, std::uint64_t file_bytes,
                  std::string_view origin) {
  auto refuse = [&](std::string fact) {
    throw Error(ErrorKind::data, "checkpoint", fmt::format("{}: {}", origin, fact),
                "is the file complete?");
  };
  std::vector<const StoredTensor*> by_place;
  by_place.reserve(header.tensors.size());
  for (const StoredTensor& tensor : header.tensors) by_place.push_back(&tensor);
  std::sort(by_place.begin(), by_place.end(), [](const auto* a, const auto* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t end = 0;
  for (const StoredTensor* tensor : by_place) {
    if (tensor->begin != end)
      refuse(fmt::format("tensor {} begins at data byte {}, {} was expected ({})",
                         in_quotes(tensor->name), tensor->begin, end,
                         tensor->begin > end ? "a hole" : "an overlap"));
    end = tensor->end;
  }
  const std::uint64_t data_bytes = file_bytes - header.data_begin;
  if (end != data_bytes)
    refuse(fmt::format("the tensors need {} data bytes, the file holds {}", end, data_bytes));
}

void check_names(const SafetensorsHeader& header, std::string_view origin) {
  const auto twin =
      std::adjacent_find(header.tensors.begin(), header.tensors.end(),
                         [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twin != header.tensors.end())
    throw Error(ErrorKind::data, "checkpoint",
                fmt::format("{}: tensor {} occurs twice", origin, in_quotes(twin->name)));
}

// As serde_json writes strings: only what must be escaped.
void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view kSpecial = "\"\\\b\f\n\r\t", kLetter = "\"\\bfnrt";
  out.push_back('"');
  for (const char c : text) {
    if (const auto at = kSpecial.find(c); at != kSpecial.npos) {
      out.push_back('\\');
      out.push_back(kLetter[at]);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

std::string header_text(const std::vector<StoredTensor>& tensors, const Metadata& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      append_json_string(text, key);
      text.push_back(':');
      append_json_string(text, value);
      text.push_back(',');
    }
    text.back() = '}';
    text.push_back(',');
  }
  for (const StoredTensor& tensor : tensors) {
    append_json_string(text, tensor.name);
    text += fmt::format(":{{\"dtype\":\"{}\",\"shape\":[", name_of(tensor.dtype));
    for (std::size_t i = 0; i < tensor.shape.size(); ++i)
      text += fmt::format("{}{}", i ? "," : "", tensor.shape[i]);
    text += fmt::format("],\"data_offsets\":[{},{}]}},", tensor.begin, tensor.end);
  }
  if (text.size() == 1)
    text.push_back('}');
  else
    text.back() = '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> front,
                                           std::uint64_t file_bytes, std::string_view origin) {
  auto refuse = [&](std::string fact) {
    throw Error(ErrorKind::data, "checkpoint", fmt::format("cannot read {}: {}", origin, fact),
                "is the download complete?");
  };
  if (file_bytes < 8 || front.size() < 8)
    refuse(fmt::format("{} bytes are too few for a safetensors file", file_bytes));
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, front.data(), 8);
  if (header_bytes > kMaxHeaderBytes)
    refuse(fmt::format("header of {} bytes, the limit is {}", header_bytes, kMaxHeaderBytes));
  if (header_bytes > file_bytes - 8 || header_bytes > front.size() - 8)
    refuse(fmt::format("header {} bytes > file {} bytes", header_bytes, file_bytes));
  const std::string_view text(reinterpret_cast<const char*>(front.data()) + 8,
                              static_cast<std::size_t>(header_bytes));
  if (text.empty() || text.front() != '{') refuse("its header does not begin with '{'");
  if (const auto bad = find_invalid_utf8(text))
    refuse(fmt::format("its header is not UTF-8 at byte {}", 8 + *bad));
  SafetensorsHeader header;
  header.data_begin = 8 + header_bytes;
  HeaderReader(text, origin).read(header);
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  check_names(header, origin);
  check_places(header, file_bytes, origin);
  return header;
}

SafetensorsPlan plan_safetensors(std::vector<StoredTensor> tensors, const Metadata& metadata) {
  SafetensorsPlan plan;
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name;
  });
  for (StoredTensor& tensor : tensors) {
    const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
    WMTP_CHECK(bytes, "tensor " + tensor.name + " has no valid size");
    tensor.begin = plan.data_bytes;
    tensor.end = plan.data_bytes += *bytes;
  }
  const std::string text = header_text(tensors, metadata);
  const std::uint64_t size = text.size();
  plan.header.assign(reinterpret_cast<const char*>(&size), sizeof size);
  plan.header += text;
  plan.tensors = std::move(tensors);
  return plan;
}

}  // namespace wmtp::storage
