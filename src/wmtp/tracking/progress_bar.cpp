#include "wmtp/tracking/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "wmtp/core/time.h"
#include "wmtp/core/utf8.h"
#include "wmtp/tracking/table.h"

namespace wmtp::tracking {
namespace {

constexpr std::string_view kBold = "1", kDim = "2", kBarColor = "36", kPlain = "";
constexpr std::string_view kSeparator = " | ";
constexpr std::size_t kShortestBar = 12, kLongestBar = 62, kNumberLines = 2;

struct Field {
  std::string text;  // empty: left out
  std::string_view color;
  int importance = 0;
};

std::string painted(const Field& field, bool color) {
  if (!color || field.color.empty()) return field.text;
  return fmt::format("\x1b[{}m{}\x1b[0m", field.color, field.text);
}

std::size_t joined_width(const std::vector<Field>& fields, std::string_view separator) {
  std::size_t width = 0;
  for (const Field& field : fields)
    if (!field.text.empty())
      width += (width == 0 ? 0 : separator.size()) + display_width(field.text);
  return width;
}

std::string joined(const std::vector<Field>& fields, std::string_view separator, bool color,
                   std::size_t width) {
  std::string line;
  std::size_t left = width;
  for (Field field : fields) {
    if (field.text.empty()) continue;
    if (!line.empty()) line += separator, left -= std::min(left, separator.size());
    field.text.resize(first_code_points(field.text, left).size());
    left -= display_width(field.text);
    line += painted(field, color);
  }
  return line;
}

// False: one is left, which is cut rather than left out.
bool drop_least(std::vector<Field>& fields) {
  Field* least = nullptr;
  std::size_t num_shown = 0;
  for (Field& field : fields) {
    if (field.text.empty()) continue;
    ++num_shown;
    if (!least || field.importance < least->importance) least = &field;
  }
  if (num_shown < 2) return false;
  least->text.clear();
  return true;
}

std::string repeat(std::string_view piece, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += piece;
  return out;
}

double ratio_of(std::int64_t done, std::int64_t all) {
  return all <= 0 ? 0 : std::clamp(static_cast<double>(done) / static_cast<double>(all), 0.0, 1.0);
}

// `width` columns in all.
std::string draw_bar(double ratio, std::size_t width, const BarStyle& style) {
  const std::size_t inside = style.unicode ? width : width - 2;
  const auto filled = static_cast<std::size_t>(ratio * static_cast<double>(inside));
  if (style.unicode) return repeat("█", filled) + repeat("░", inside - filled);
  return "[" + repeat("#", filled) + repeat("-", inside - filled) + "]";
}

std::string rate_text(double per_sec) {
  return per_sec < 10'000 ? fmt::format("{:.0f}", per_sec) : fmt::format("{:.1f}k", per_sec / 1000);
}

// Where the run, or a validation, is: stage, epoch, step, drawn bar, percent, time left. Of what
// does not fit the epoch goes first, then the drawn bar, then the stage, then the time.
std::string place_line(const BarState& state, const BarStyle& style, std::size_t width) {
  const Progress& p = state.progress;
  const auto& validating = state.validating;
  const double ratio = validating ? ratio_of(validating->num_done, validating->num_batches)
                                  : ratio_of(p.step, p.num_steps);
  std::vector<Field> fields{{state.stage, kBold, 3},
                            {"", kPlain, 1},  // the epoch
                            {"", kPlain, 9},
                            {"", kBarColor, 2},
                            {fmt::format("{:.0f} %", std::floor(100 * ratio)), kPlain, 8},
                            {"", kPlain, 4}};
  if (validating) {
    fields[2].text = fmt::format("validation at step {}", validating->step);
    fields[5].text = fmt::format("{}/{} batches", validating->num_done, validating->num_batches);
    fields[5].importance = 1;  // the share says it already
  } else {
    fields[1].text = fmt::format("epoch {:.2f}/{:g}", p.epoch, p.num_epochs);
    fields[2].text = fmt::format("step {}/{}", p.step, p.num_steps);
    if (state.eta_s) fields[5].text = "ETA " + format_duration(*state.eta_s);
  }
  Field* const bar = &fields[3];
  bar->text = std::string(kShortestBar, '#');
  while (joined_width(fields, " ") > width && drop_least(fields)) {
  }
  if (!bar->text.empty()) {
    const std::size_t others = joined_width(fields, " ") - kShortestBar;
    bar->text = draw_bar(ratio, std::min(width - others, kLongestBar), style);
  }
  return joined(fields, " ", style.color, width);
}

std::vector<Field> number_fields(const BarState& state) {
  const Progress& p = state.progress;
  std::vector<Field> fields;
  if (p.num_steps == 0 && state.validating) return fields;  // before the first step
  const auto add = [&fields](int importance, std::string text, std::string_view color = kPlain) {
    fields.push_back({std::move(text), color, importance});
  };
  add(9,
      fmt::format("loss {:.4f}", p.loss) +
          (p.unweighted_loss ? fmt::format(" (unweighted {:.4f})", *p.unweighted_loss) : ""),
      kBold);
  add(4, fmt::format("lr {:.2e}", p.learning_rate));
  add(7, fmt::format("grad {:.2f}", p.grad_norm));
  const int ranks = std::max(1, p.num_ranks);
  add(8, fmt::format("{} tok/s{}", rate_text(p.tokens_per_sec / ranks), ranks > 1 ? "/rank" : ""));
  if (p.mfu) add(3, fmt::format("MFU {:.2f}", *p.mfu));
  if (p.memory_used_gib)
    add(6, p.memory_limit_gib
               ? fmt::format("mem {:.1f}/{:.1f} GiB", *p.memory_used_gib, *p.memory_limit_gib)
               : fmt::format("mem {:.1f} GiB", *p.memory_used_gib));
  if (p.data_wait_ratio) add(5, fmt::format("data wait {:.0f} %", 100 * *p.data_wait_ratio));
  if (state.saved_step)
    add(2, fmt::format("saved {} {} ago", *state.saved_step, format_duration(state.saved_age_s)),
        kDim);
  if (state.next_save_eta_s)
    add(1, "next save in " + format_duration(*state.next_save_eta_s), kDim);
  return fields;
}

// Each line takes as many of the fields as it has room for.
std::vector<std::vector<Field>> broken_into_lines(const std::vector<Field>& fields,
                                                  std::size_t width) {
  std::vector<std::vector<Field>> lines;
  for (const Field& field : fields) {
    if (field.text.empty()) continue;
    if (!lines.empty()) lines.back().push_back(field);
    if (!lines.empty() && joined_width(lines.back(), kSeparator) <= width) continue;
    if (!lines.empty()) lines.back().pop_back();
    lines.push_back({field});
  }
  return lines;
}

}  // namespace

std::vector<std::string> bar_lines(const BarState& state, const BarStyle& style) {
  // The last column stays empty: some terminals wrap when it is written.
  const std::size_t width = std::max<std::size_t>(style.columns, 20) - 1;
  std::vector<std::string> lines{place_line(state, style, width)};
  std::vector<Field> fields = number_fields(state);
  while (broken_into_lines(fields, width).size() > kNumberLines && drop_least(fields)) {
  }
  for (const auto& line : broken_into_lines(fields, width))
    lines.push_back(joined(line, kSeparator, style.color, width));
  return lines;
}

}  // namespace wmtp::tracking
