#include "wmtp/tracking/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "wmtp/core/time.h"
#include "wmtp/tracking/table.h"

namespace wmtp::tracking {
namespace {

constexpr std::string_view kBold = "1", kDim = "2", kBarColor = "36", kPlain = "";
constexpr std::string_view kSeparator = " | ";
constexpr std::size_t kShortestBar = 10, kLongestBar = 60;

struct Field {
  std::string text;
  std::string_view color;
};

std::string cut_to(const std::string& text, std::size_t width) {
  std::size_t bytes = 0, seen = 0;
  for (; bytes < text.size(); ++bytes) {
    const bool starts = (static_cast<unsigned char>(text[bytes]) & 0xC0U) != 0x80U;
    if (starts && seen++ == width) break;
  }
  return text.substr(0, bytes);
}

std::string painted(const Field& field, bool color) {
  if (!color || field.color.empty()) return field.text;
  return fmt::format("\x1b[{}m{}\x1b[0m", field.color, field.text);
}

std::string repeat(std::string_view piece, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += piece;
  return out;
}

double done_ratio(const Progress& p) {
  if (p.num_steps <= 0) return 0;
  return std::clamp(static_cast<double>(p.step) / static_cast<double>(p.num_steps), 0.0, 1.0);
}

std::string draw_bar(double ratio, std::size_t width, const BarStyle& style) {
  const auto filled = static_cast<std::size_t>(ratio * static_cast<double>(width));
  if (style.unicode) return repeat("█", filled) + repeat("░", width - filled);
  return "[" + repeat("#", filled) + repeat("-", width - filled) + "]";
}

std::string rate_text(double per_sec) {
  return per_sec < 10'000 ? fmt::format("{:.0f}", per_sec) : fmt::format("{:.1f}k", per_sec / 1000);
}

// Where the run is: stage, epoch, step, bar, percent, time left. One line, or two on small screens.
std::vector<std::vector<Field>> place_lines(const BarState& state, const BarStyle& style,
                                            std::size_t width) {
  const Progress& p = state.progress;
  const std::string place =
      fmt::format("epoch {:.2f}/{:g} step {}/{} ", p.epoch, p.num_epochs, p.step, p.num_steps);
  std::string rest = fmt::format(" {:.0f} %", std::floor(100 * done_ratio(p)));
  if (state.eta_s) rest += " ETA " + format_duration(*state.eta_s);
  const std::size_t ends = style.unicode ? 0 : 2;
  const std::size_t used = state.stage.size() + 1 + place.size() + rest.size() + ends;
  const bool one_line = used + kShortestBar <= width;
  const std::size_t free = one_line ? width - used : width - std::min(width, rest.size() + ends);
  const Field bar{draw_bar(done_ratio(p), std::min(free, kLongestBar), style), kBarColor};
  const Field stage{state.stage + " ", kBold}, at{place, kPlain}, end{rest, kPlain};
  if (one_line) return {{stage, at, bar, end}};
  return {{stage, at}, {bar, end}};
}

std::vector<Field> number_fields(const BarState& state) {
  const Progress& p = state.progress;
  std::vector<Field> fields;
  std::string loss = fmt::format("loss {:.4f}", p.loss);
  if (p.unweighted_loss) loss += fmt::format(" (unweighted {:.4f})", *p.unweighted_loss);
  fields.push_back({std::move(loss), kBold});
  fields.push_back({fmt::format("lr {:.2e}", p.learning_rate), kPlain});
  fields.push_back({fmt::format("grad {:.2f}", p.grad_norm), kPlain});
  const int ranks = std::max(1, p.num_ranks);
  fields.push_back(
      {fmt::format("{} tok/s{}", rate_text(p.tokens_per_sec / ranks), ranks > 1 ? "/rank" : ""),
       kPlain});
  if (p.mfu) fields.push_back({fmt::format("MFU {:.2f}", *p.mfu), kPlain});
  if (p.memory_used_gib && p.memory_limit_gib)
    fields.push_back(
        {fmt::format("mem {:.1f}/{:.1f} GiB", *p.memory_used_gib, *p.memory_limit_gib), kPlain});
  else if (p.memory_used_gib)
    fields.push_back({fmt::format("mem {:.1f} GiB", *p.memory_used_gib), kPlain});
  if (p.data_wait_ratio)
    fields.push_back({fmt::format("data wait {:.0f} %", 100 * *p.data_wait_ratio), kPlain});
  if (state.saved_step)
    fields.push_back(
        {fmt::format("saved {} {} ago", *state.saved_step, format_duration(state.saved_age_s)),
         kDim});
  if (state.next_save_eta_s)
    fields.push_back({"next save in " + format_duration(*state.next_save_eta_s), kDim});
  return fields;
}

}  // namespace

std::vector<std::string> bar_lines(const BarState& state, const BarStyle& style) {
  // The last column stays empty: some terminals wrap when it is written.
  const std::size_t width = std::max<std::size_t>(style.columns, 20) - 1;
  std::vector<std::string> lines;
  for (const auto& fields : place_lines(state, style, width)) {
    std::string line;
    std::size_t left = width;
    for (Field field : fields) {
      field.text = cut_to(field.text, left);
      left -= display_width(field.text);
      line += painted(field, style.color);
    }
    lines.push_back(std::move(line));
  }
  std::size_t used = width;  // a new line begins with the first field
  for (Field& field : number_fields(state)) {
    field.text = cut_to(field.text, width);
    const std::size_t needs = display_width(field.text);
    if (used + kSeparator.size() + needs > width) {
      lines.push_back(painted(field, style.color));
      used = needs;
    } else {
      lines.back() += std::string(kSeparator) + painted(field, style.color);
      used += kSeparator.size() + needs;
    }
  }
  return lines;
}

}  // namespace wmtp::tracking
