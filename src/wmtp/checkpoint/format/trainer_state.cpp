#include "wmtp/checkpoint/format/trainer_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace wmtp::checkpoint {
namespace {

constexpr std::array<std::string_view, 15> kKeys{
    "version", "step", "epoch",      "samples_seen", "tokens_seen",
    "cursor",  "rng",  "optimizer",  "schedule",     "loss_scale",
    "ema",     "best", "early_stop", "layout",       "mlflow"};
constexpr std::string_view kMayBeMissing = "loss_watch";  // checkpoints of earlier versions
constexpr JsonLimits kTrainerStateLimits{.max_bytes = std::size_t{16} << 20, .max_depth = 8};

template <class AnyJson>
void check_keys(const AnyJson& state, std::string_view origin, ErrorKind kind) {
  auto refuse = [&](std::string fact) {
    throw Error(kind, "checkpoint", fmt::format("{}: {}", origin, fact),
                "was it written by this version?");
  };
  if (!state.is_object()) refuse("it is no object");
  for (const std::string_view key : kKeys)
    if (!state.contains(key)) refuse(fmt::format("the key \"{}\" is missing", key));
  for (const auto& [key, value] : state.items())
    if (key != kMayBeMissing && std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
      refuse(fmt::format("unknown key \"{:.80}\"", key));
}

void append_float(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
    return;
  }
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  const std::string_view text(digits.data(), static_cast<std::size_t>(end - digits.data()));
  out += text;
  if (text.find_first_of(".e") == text.npos) out += ".0";  // it shall come back as a float
}

void append_value(std::string& out, const OrderedJson& value, int depth) {
  WMTP_CHECK(depth <= kTrainerStateLimits.max_depth,
             "trainer_state nested deeper than its reader takes");
  if (value.is_number_float()) return append_float(out, value.get<double>());
  if (!value.is_structured()) {
    out += value.dump();
    return;
  }
  const bool object = value.is_object();
  out.push_back(object ? '{' : '[');
  for (auto item = value.begin(); item != value.end(); ++item) {
    if (item != value.begin()) out.push_back(',');
    if (object) out += OrderedJson(item.key()).dump() + ":";
    append_value(out, *item, depth + 1);
  }
  out.push_back(object ? '}' : ']');
}

}  // namespace

std::string trainer_state_text(const OrderedJson& state) {
  check_keys(state, "trainer_state.json", ErrorKind::internal);
  std::string out;
  append_value(out, state, 1);
  return out + "\n";
}

Json parse_trainer_state(std::string_view text, std::string_view origin) {
  Json state = parse_json(text, origin, kTrainerStateLimits, ErrorKind::checkpoint);
  check_keys(state, origin, ErrorKind::checkpoint);
  return state;
}

double read_number(const Json& value, std::string_view key) {
  if (value.is_number()) return value.get<double>();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  throw Error(ErrorKind::checkpoint, "checkpoint",
              fmt::format("trainer_state.json: \"{}\" is no number", key));
}

}  // namespace wmtp::checkpoint
