#include "wmtp/run/profile/time_table.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>

namespace wmtp::run {
namespace {

using Kind = ProfiledSpan::Kind;
using tracking::ProfileRow;

constexpr double kSecondsPerNs = 1e-9;

struct Window {
  std::int64_t begin = 0, end = 0;
  bool holds(const ProfiledSpan& span) const {
    return begin <= span.start_ns && span.end_ns <= end;
  }
};

bool is_step(const ProfiledSpan& span) {
  return span.kind == Kind::scope && span.name.starts_with(kStepScope);
}

bool is_product(const std::string& name, bool on_device) {
  if (on_device) return name.find("gemm") != name.npos || name.starts_with("nvjet");
  static const std::set<std::string_view> kProducts{"aten::mm", "aten::addmm", "aten::bmm",
                                                    "aten::baddbmm"};
  return kProducts.contains(name);
}

// Rows in the order their names first come.
class Rows {
 public:
  void add(const std::string& name, std::int64_t ns) {
    const auto [place, is_new] = places_.emplace(name, rows_.size());
    if (is_new) rows_.push_back({name, 0, 0});
    ProfileRow& row = rows_[place->second];
    ++row.calls;
    row.seconds += static_cast<double>(ns) * kSecondsPerNs;
  }
  double seconds() const {
    double sum = 0;
    for (const ProfileRow& row : rows_) sum += row.seconds;
    return sum;
  }
  std::vector<ProfileRow> take() { return std::move(rows_); }

 private:
  std::map<std::string, std::size_t> places_;
  std::vector<ProfileRow> rows_;
};

// Those of the host or of the device; spans that hold others come before them.
std::vector<ProfiledSpan> ordered(std::span<const ProfiledSpan> spans, bool on_device) {
  std::vector<ProfiledSpan> result;
  for (const ProfiledSpan& span : spans)
    if ((span.kind == Kind::device) == on_device) result.push_back(span);
  std::ranges::stable_sort(result, [](const ProfiledSpan& a, const ProfiledSpan& b) {
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
  });
  return result;
}

// Walks the nested spans of the host. `see(span, parent scope or null, parent operator or null)`.
template <class See>
void walk(const std::vector<ProfiledSpan>& spans, See&& see) {
  std::vector<const ProfiledSpan*> open;
  for (const ProfiledSpan& span : spans) {
    while (!open.empty() && open.back()->end_ns <= span.start_ns) open.pop_back();
    const ProfiledSpan *scope = nullptr, *operation = nullptr;
    for (const ProfiledSpan* one : open) (one->kind == Kind::scope ? scope : operation) = one;
    see(span, scope, operation);
    open.push_back(&span);
  }
}

Window window_of(const std::vector<ProfiledSpan>& spans) {
  Window window;
  for (const ProfiledSpan& span : spans) {
    if (!is_step(span)) continue;
    if (window.end == 0) window.begin = span.start_ns;
    window.end = std::max(window.end, span.end_ns);
  }
  return window;
}

std::int64_t union_ns(const std::vector<ProfiledSpan>& spans, const Window& window) {
  std::int64_t covered = 0, until = window.begin;
  for (const ProfiledSpan& span : spans) {
    if (!window.holds(span)) continue;
    covered += std::max<std::int64_t>(0, span.end_ns - std::max(until, span.start_ns));
    until = std::max(until, span.end_ns);
  }
  return covered;
}

// What the host started in the steps may end behind them.
std::int64_t end_on_device(const std::vector<ProfiledSpan>& device, const Window& window) {
  std::int64_t end = window.end;
  for (const ProfiledSpan& span : device)
    if (span.start_ns >= window.begin) end = std::max(end, span.end_ns);
  return end;
}

std::vector<ProfileRow> phases_of(const std::vector<ProfiledSpan>& host, double wall_s) {
  Rows phases, steps;
  walk(host, [&](const ProfiledSpan& span, const ProfiledSpan* scope, const ProfiledSpan*) {
    if (span.kind != Kind::scope) return;
    if (is_step(span)) return steps.add("steps", span.duration_ns());
    if (scope && is_step(*scope)) phases.add(span.name, span.duration_ns());
  });
  const double steps_s = steps.seconds(), phases_s = phases.seconds();
  std::vector<ProfileRow> rows = phases.take();
  rows.push_back({"other parts of steps", 0, steps_s - phases_s});
  rows.push_back({"between steps", 0, wall_s - steps_s});
  return rows;
}

// What ran where the operators are: by own time on the host, whole kernels on a device.
struct Operators {
  std::vector<ProfileRow> rows;
  std::int64_t covered_ns = 0;
};

Operators host_operators(const std::vector<ProfiledSpan>& host, const Window& window) {
  std::map<const ProfiledSpan*, std::int64_t> own_ns;
  Operators found;
  walk(host, [&](const ProfiledSpan& span, const ProfiledSpan*, const ProfiledSpan* operation) {
    if (span.kind != Kind::operation || !window.holds(span)) return;
    own_ns[&span] += span.duration_ns();
    if (operation && window.holds(*operation))
      own_ns[operation] -= span.duration_ns();
    else
      found.covered_ns += span.duration_ns();
  });
  Rows rows;
  for (const ProfiledSpan& span : host)  // in their order, not that of addresses
    if (const auto own = own_ns.find(&span); own != own_ns.end()) rows.add(span.name, own->second);
  found.rows = rows.take();
  return found;
}

Operators device_operators(const std::vector<ProfiledSpan>& device, const Window& window) {
  Rows rows;
  for (const ProfiledSpan& span : device)
    if (window.holds(span)) rows.add(span.name, span.duration_ns());
  return {rows.take(), union_ns(device, window)};
}

}  // namespace

tracking::ProfileSummary time_table(std::span<const ProfiledSpan> spans, const StepRange& steps) {
  const std::vector<ProfiledSpan> host = ordered(spans, /*on_device=*/false);
  const std::vector<ProfiledSpan> device = ordered(spans, /*on_device=*/true);
  Window window = window_of(host);
  const std::int64_t host_ns = window.end - window.begin;
  if (window.end != 0) window.end = end_on_device(device, window);
  const std::int64_t wall_ns = window.end - window.begin;
  tracking::ProfileSummary summary;
  summary.first_step = steps.first;
  summary.last_step = steps.last;
  summary.wall_s = static_cast<double>(wall_ns) * kSecondsPerNs;
  summary.phases = phases_of(host, static_cast<double>(host_ns) * kSecondsPerNs);
  if (wall_ns > host_ns)
    summary.phases.push_back(
        {"until the device ended", 0, static_cast<double>(wall_ns - host_ns) * kSecondsPerNs});
  Operators found =
      device.empty() ? host_operators(host, window) : device_operators(device, window);
  summary.gap_s = static_cast<double>(wall_ns - found.covered_ns) * kSecondsPerNs;
  summary.operators = std::move(found.rows);
  std::ranges::stable_sort(summary.operators, std::greater(), &ProfileRow::seconds);
  for (const ProfileRow& row : summary.operators)
    if (is_product(row.name, !device.empty())) summary.gemm_s += row.seconds;
  return summary;
}

}  // namespace wmtp::run
