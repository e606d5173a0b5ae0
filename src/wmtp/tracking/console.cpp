#include "wmtp/tracking/console.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "wmtp/core/live_frame.h"
#include "wmtp/core/log_hook.h"
#include "wmtp/core/time.h"

namespace wmtp::tracking {
namespace {

constexpr double kShortestRedraw_s = 0.2;  // at most 5 redraws a second
constexpr double kLongestSilence_s = 60;
constexpr double kValidatingLine_s = 10;

double steady_seconds() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace

ConsoleMode choose_mode(config::Progress wanted, const ConsoleFacts& facts) {
  if (facts.json) return ConsoleMode::json;
  switch (wanted) {
    case config::Progress::bar:
      return ConsoleMode::bar;
    case config::Progress::lines:
      return ConsoleMode::lines;
    case config::Progress::off:
      return ConsoleMode::off;
    case config::Progress::automatic:
      break;
  }
  return facts.on_terminal && !facts.under_slurm ? ConsoleMode::bar : ConsoleMode::lines;
}

Console::Console(std::ostream& out, ConsoleOptions options)
    : out_(out), options_(std::move(options)) {
  if (!options_.now_s) options_.now_s = steady_seconds;
  last_line_s_ = options_.now_s();
  if (options_.mode != ConsoleMode::bar) return;
  log::before_each_line([this] {
    const std::scoped_lock lock(mutex_);
    erase_bar();
  });
}

Console::~Console() {
  if (options_.mode != ConsoleMode::bar) return;
  log::before_each_line({});
  erase_bar();
}

void Console::resumed(const Resumed& resumed) {
  const std::scoped_lock lock(mutex_);
  tell(resumed_line(resumed), "checkpoint", resumed_json(resumed));
}

void Console::sample(const DecodedSample& sample) {
  if (json()) return;
  const std::scoped_lock lock(mutex_);
  if (std::exchange(sample_shown_, true)) return;
  say(fmt::format("A sample of stage {} at step {}:", sample.stage, sample.step));
  say(render_sample(sample, {.color = options_.style.color}));
}

void Console::progress(const Progress& progress) {
  const std::scoped_lock lock(mutex_);
  const double now = options_.now_s();
  eta_.add_step(progress.step_time_s);
  last_ = progress;
  if (options_.mode == ConsoleMode::bar) {
    draw_bar(now);
  } else if (options_.mode != ConsoleMode::off && line_is_due(progress, now)) {
    last_line_s_ = now;
    const auto eta = eta_.remaining_s(progress.remaining);
    tell(step_line(progress, eta), "step", step_json(progress, eta));
  }
}

void Console::validating(const ValidationProgress& at) {
  const std::scoped_lock lock(mutex_);
  const double now = options_.now_s();
  if (options_.mode == ConsoleMode::bar) return draw_bar(now, at);
  if (options_.mode != ConsoleMode::lines) return;
  if (!validating_told_s_) validating_told_s_ = now;
  if (now - *validating_told_s_ < kValidatingLine_s) return;
  validating_told_s_ = now;
  say(validating_line(at));
}

void Console::validation(const Validation& validation) {
  const std::scoped_lock lock(mutex_);
  validating_told_s_.reset();
  eta_.add_validation(validation.seconds);
  tell(validation_line(validation), "eval", validation_json(validation));
}

void Console::saving(std::int64_t step) {
  const std::scoped_lock lock(mutex_);
  if (options_.mode == ConsoleMode::lines) say(saving_line(step));
}

void Console::saved(const SavedCheckpoint& saved) {
  const std::scoped_lock lock(mutex_);
  eta_.add_save(saved.blocked_s);
  saved_step_ = saved.step;
  saved_at_s_ = options_.now_s();
  tell(saved_line(saved), "checkpoint", saved_json(saved));
}

void Console::finished(const RunSummary& summary) {
  const std::scoped_lock lock(mutex_);
  if (json()) return say_json("result", to_json(summary));
  say(completion_line(summary));
  say("\n" + outcome_table(summary).text(options_.style.color));
  say("\n" + summary_table(summary).text(options_.style.color));
}

void Console::text(std::string_view line) {
  const std::scoped_lock lock(mutex_);
  if (!json()) say(line);
}

std::optional<double> Console::eta_s() const {
  const std::scoped_lock lock(mutex_);
  return last_ ? eta_.remaining_s(last_->remaining) : std::nullopt;
}

void Console::tell(std::string_view line, std::string_view type, const OrderedJson& fields) {
  if (json())
    say_json(type, fields);
  else
    say(line);
}

void Console::say(std::string_view line) {
  erase_bar();
  out_ << line;
  if (!line.ends_with('\n')) out_ << '\n';
  out_.flush();
}

void Console::say_json(std::string_view type, const OrderedJson& fields) {
  OrderedJson line{{"type", type}, {"ts", utc_timestamp()}};
  line.update(fields);
  say(line.dump(-1, ' ', false, Json::error_handler_t::replace));
}

bool Console::line_is_due(const Progress& progress, double now) {
  return (options_.log_interval > 0 && progress.step % options_.log_interval == 0) ||
         now - last_line_s_ >= kLongestSilence_s;
}

void Console::draw_bar(double now, const std::optional<ValidationProgress>& validating) {
  if (last_draw_s_ && now - *last_draw_s_ < kShortestRedraw_s) return;
  last_draw_s_ = now;
  BarState state{.stage = options_.stage,
                 .progress = last_.value_or(Progress{}),
                 .validating = validating,
                 .eta_s = last_ ? eta_.remaining_s(last_->remaining) : std::nullopt,
                 .next_save_eta_s = {},
                 .saved_step = saved_step_,
                 .saved_age_s = now - saved_at_s_};
  if (last_ && last_->next_save_step)
    state.next_save_eta_s = eta_.remaining_s({.num_steps = *last_->next_save_step - last_->step});
  if (last_ && last_->next_save_s)
    state.next_save_eta_s = std::max(
        0.0, std::min(*last_->next_save_s, state.next_save_eta_s.value_or(*last_->next_save_s)));
  BarStyle style = options_.style;
  if (options_.columns) style.columns = options_.columns();
  out_ << live_frame(bar_lines(state, style)) << std::flush;
  bar_stands_ = true;
}

void Console::erase_bar() {
  if (bar_stands_) out_ << live_frame({}) << std::flush;
  bar_stands_ = false;
}

}  // namespace wmtp::tracking
