#include "wmtp/weights/bitsandbytes/quant_state.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "wmtp/core/error.h"
#include "wmtp/core/json.h"
#include "wmtp/core/planted_fault.h"

namespace wmtp::weights {
namespace {

using storage::StoredDtype;

constexpr JsonLimits kQuantStateLimits{kMaxQuantStateBytes, 3};
constexpr std::int64_t kBlockElements = 64, kGroupBlocks = 256;
// Far above any weight, and 4 bytes for each element still have a size.
constexpr std::int64_t kMaxWeightElements = std::int64_t{1} << 48;
constexpr const char* kNf4Hint =
    "wmtp reads NF4 in blocks of 64 as bitsandbytes writes it; name the unquantised model instead";
constexpr std::array<std::string_view, 7> kStateKeys{
    "quant_type",       "blocksize",    "dtype",        "shape",
    "nested_blocksize", "nested_dtype", "nested_offset"};

// One quantisation state being read.
class StateReader {
 public:
  StateReader(const Json& json, std::string_view origin) : json_(json), origin_(origin) {
    if (!json.is_object()) damaged("it is no JSON object");
    for (const auto& [key, value] : json.items())
      if (std::ranges::find(kStateKeys, key) == kStateKeys.end())
        unsupported(fmt::format("its key {:.60} is not known", key));
  }

  QuantState read() const {
    require_text("quant_type", "nf4");
    require_number("blocksize", kBlockElements);
    QuantState state;
    state.dtype = dtype();
    state.shape = shape();
    if (!has("nested_blocksize") && !has("nested_dtype") && !has("nested_offset")) return state;
    require_number("nested_blocksize", kGroupBlocks);
    require_text("nested_dtype", "float32");
    state.nested_offset = offset();
    return state;
  }

 private:
  [[noreturn]] void refuse(ErrorKind kind, const std::string& fact, const char* hint) const {
    throw Error(kind, "checkpoint", fmt::format("{}: {}", origin_, fact), hint);
  }
  [[noreturn]] void damaged(const std::string& fact) const { refuse(ErrorKind::data, fact, ""); }
  [[noreturn]] void unsupported(const std::string& fact) const {
    refuse(ErrorKind::config, fact, kNf4Hint);
  }

  bool has(const char* key) const { return json_.contains(key); }

  const Json& field(const char* key) const {
    const auto at = json_.find(key);
    if (at == json_.end()) damaged(fmt::format("{} is missing", key));
    return *at;
  }

  std::string text(const char* key) const {
    const Json& value = field(key);
    if (!value.is_string()) damaged(fmt::format("{} is no text", key));
    return value.get<std::string>();
  }

  void require_text(const char* key, std::string_view wanted) const {
    const std::string found = text(key);
    if (found != wanted) unsupported(fmt::format("{} is \"{:.40}\", not {}", key, found, wanted));
  }

  void require_number(const char* key, std::int64_t wanted) const {
    const Json& value = field(key);
    if (!value.is_number_integer()) damaged(fmt::format("{} is no whole number", key));
    if (value != wanted) unsupported(fmt::format("{} is {}, not {}", key, value.dump(), wanted));
  }

  StoredDtype dtype() const {
    const std::string name = text("dtype");
    if (name == "bfloat16") return StoredDtype::BF16;
    if (name == "float16") return StoredDtype::F16;
    if (name == "float32") return StoredDtype::F32;
    unsupported(fmt::format("dtype is \"{:.40}\", not bfloat16, float16 or float32", name));
  }

  std::vector<std::int64_t> shape() const {
    const Json& value = field("shape");
    if (!value.is_array() || value.size() != 2) damaged("shape is no list of two sizes");
    std::vector<std::int64_t> sizes;
    std::int64_t room = kMaxWeightElements;
    for (const Json& size : value) {
      if (!size.is_number_unsigned() || size == 0u ||
          size.get<std::uint64_t>() > static_cast<std::uint64_t>(room) + planted_off_by_one)
        damaged(fmt::format("shape {:.60} is none of a matrix", value.dump()));
      sizes.push_back(size.get<std::int64_t>());
      room /= sizes.back();
    }
    return sizes;
  }

  float offset() const {
    const Json& value = field("nested_offset");
    const double offset = value.is_number() ? value.get<double>() : std::nan("");
    if (!(std::abs(offset) <= static_cast<double>(std::numeric_limits<float>::max())))
      damaged("nested_offset is no finite number");
    return static_cast<float>(offset);
  }

  const Json& json_;
  std::string_view origin_;
};

}  // namespace

std::int64_t QuantState::num_blocks() const {
  return (numel() + kBlockElements - 1) / kBlockElements;
}

std::int64_t QuantState::num_groups() const {
  return (num_blocks() + kGroupBlocks - 1) / kGroupBlocks;
}

QuantState parse_quant_state(std::string_view text, std::string_view origin) {
  const Json json = parse_json(text, origin, kQuantStateLimits);
  return StateReader(json, origin).read();
}

}  // namespace wmtp::weights
