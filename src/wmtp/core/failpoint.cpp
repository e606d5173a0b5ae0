#include "wmtp/core/failpoint.h"

#ifdef WMTP_FAILPOINTS
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "wmtp/core/error.h"
#include "wmtp/core/suggest.h"

namespace wmtp::failpoint {
namespace {

constexpr std::array<std::string_view, 9> kActionNames{"none",  "kill",  "stop", "eio",   "enospc",
                                                       "short", "sleep", "skip", "damage"};

struct Rule {
  std::size_t point = 0;
  std::optional<int> rank;
  std::int64_t nth = 1;
  bool from_then_on = false;
  Action action = Action::none;
  std::int64_t sleep_ms = 1000;
  std::int64_t num_passages = 0;
};

// Process-wide, like the logger: a passage may be anywhere. Absent from releases.
struct ArmedState {
  std::mutex mutex;
  std::vector<Rule> rules;
  int rank = 0;
  std::filesystem::path log_path;
};
ArmedState& armed_state() {
  static ArmedState instance;
  return instance;
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const Point& point : points()) names.emplace_back(point.name);
  return names;
}

std::optional<std::size_t> find(std::string_view name) {
  const auto table = points();
  const auto it = std::lower_bound(table.begin(), table.end(), name,
                                   [](const Point& p, std::string_view n) { return p.name < n; });
  if (it == table.end() || it->name != name) return std::nullopt;
  return static_cast<std::size_t>(it - table.begin());
}

[[noreturn]] void refuse(std::string_view fact, std::string_view hint) {
  throw Error(ErrorKind::config, "failpoint", fact, hint);
}

constexpr std::string_view kForm =
    "the form is name[:rank=R][:nth=N|N+]=kill|stop|eio|enospc|short|sleep[:MS]|skip|damage";

std::int64_t number(std::string_view text, std::string_view entry, std::int64_t minimum) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < minimum)
    refuse(fmt::format("'{}' in '{}' is no whole number >= {}", text, entry, minimum), kForm);
  return value;
}

// Cuts `text` at the first of `marks` and returns what stood before it; `text` begins with the mark
// then.
std::string_view take(std::string_view& text, std::string_view marks) {
  const std::size_t cut = std::min(text.find_first_of(marks), text.size());
  const std::string_view head = text.substr(0, cut);
  text.remove_prefix(cut);
  return head;
}

void parse_option(std::string_view& rest, std::string_view entry, Rule& rule) {
  const std::string_view key = take(rest, "=:");
  if (!rest.starts_with('=')) refuse(fmt::format("'{}' in '{}' has no value", key, entry), kForm);
  rest.remove_prefix(1);
  std::string_view value = take(rest, "=:");
  if (key == "rank") {
    rule.rank = static_cast<int>(number(value, entry, 0));
  } else if (key == "nth") {
    rule.from_then_on = value.ends_with('+');
    if (rule.from_then_on) value.remove_suffix(1);
    rule.nth = number(value, entry, 1);
  } else {
    refuse(fmt::format("'{}' in '{}' is neither rank nor nth", key, entry), kForm);
  }
}

void parse_action(std::string_view text, std::string_view entry, Rule& rule) {
  const std::string_view name = take(text, ":");
  const auto it = std::find(kActionNames.begin() + 1, kActionNames.end(), name);
  if (it == kActionNames.end())
    refuse(fmt::format("'{}' in '{}' is no action", name, entry), kForm);
  rule.action = static_cast<Action>(it - kActionNames.begin());
  if (text.empty()) return;
  if (rule.action != Action::sleep)
    refuse(fmt::format("{} in '{}' takes no number", name, entry), kForm);
  rule.sleep_ms = number(text.substr(1), entry, 0);
}

Rule parse_rule(std::string_view entry) {
  Rule rule;
  std::string_view rest = entry;
  const std::string_view name = take(rest, "=:");
  const auto known = find(name);
  if (!known) {
    const auto names = all_names();
    const auto near = nearest(name, names);
    refuse(fmt::format("no failpoint is called '{}'{}", name,
                       near ? "; did you mean " + *near + "?" : ""),
           fmt::format("all of them: {}", fmt::join(names, " ")));
  }
  rule.point = *known;
  while (rest.starts_with(':')) {
    rest.remove_prefix(1);
    parse_option(rest, entry, rule);
  }
  if (rest.empty()) refuse(fmt::format("'{}' names no action", entry), kForm);
  parse_action(rest.substr(1), entry, rule);
  const Point& point = points()[rule.point];
  if (!(point.actions & (1 << static_cast<int>(rule.action))))
    refuse(fmt::format("{} cannot do '{}'", name, name_of(rule.action)),
           fmt::format("all points: {}", fmt::join(all_names(), " ")));
  return rule;
}

std::vector<Rule> parse_points(std::string_view spec) {
  std::vector<Rule> rules;
  while (!spec.empty()) {
    const std::string_view entry = take(spec, ";");
    if (!spec.empty()) spec.remove_prefix(1);
    if (!entry.empty()) rules.push_back(parse_rule(entry));
  }
  return rules;
}

// One write() in append mode: lines of several processes do not mix, and a kill right after keeps
// it.
void append_to_log(const ArmedState& armed, const Rule& rule) {
  if (armed.log_path.empty()) return;
  const std::string line = fmt::format("{} {} {} {}\n", points()[rule.point].name, armed.rank,
                                       rule.num_passages, name_of(rule.action));
  const int fd = ::open(armed.log_path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  [[maybe_unused]] const auto written = ::write(fd, line.data(), line.size());
  ::close(fd);
}

void act(const Rule& rule) {
  if (rule.action == Action::kill) ::kill(::getpid(), SIGKILL);
  if (rule.action == Action::stop) ::kill(::getpid(), SIGSTOP);
  if (rule.action == Action::sleep)
    std::this_thread::sleep_for(std::chrono::milliseconds(rule.sleep_ms));
}

bool fires(Rule& rule, std::size_t point, int rank) {
  if (rule.point != point || (rule.rank && *rule.rank != rank)) return false;
  ++rule.num_passages;
  return rule.from_then_on ? rule.num_passages >= rule.nth : rule.num_passages == rule.nth;
}

}  // namespace

std::string_view name_of(Action action) {
  return kActionNames[static_cast<std::size_t>(action)];
}

void configure(const Options& options) {
  std::vector<Rule> rules = parse_points(options.spec);
  ArmedState& armed = armed_state();
  std::lock_guard lock(armed.mutex);
  armed.rules = std::move(rules);
  armed.rank = options.rank;
  armed.log_path = options.log_path;
}

Action pass(std::string_view name) {
  const auto point = find(name);
  WMTP_CHECK(point, fmt::format("failpoint '{}' is not in core/failpoint_points.cpp", name));
  std::optional<Rule> hit;
  {
    ArmedState& armed = armed_state();
    std::lock_guard lock(armed.mutex);
    for (Rule& rule : armed.rules) {
      if (!fires(rule, *point, armed.rank) || hit) continue;
      append_to_log(armed, rule);
      hit = rule;
    }
  }
  if (!hit) return Action::none;
  act(*hit);
  const bool for_caller = hit->action != Action::sleep && hit->action != Action::stop;
  return for_caller ? hit->action : Action::none;
}

}  // namespace wmtp::failpoint
#endif
