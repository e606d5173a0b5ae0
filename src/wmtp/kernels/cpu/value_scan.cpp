// N tokens, D documents; t0 and T* are `first` and `last`.
#include "wmtp/kernels/value_scan.h"

#include <cmath>

#include "wmtp/kernels/cpu/parallel.h"
#include "wmtp/kernels/cpu/reference.h"
#include "wmtp/kernels/cpu/views.h"

namespace wmtp::kernels::cpu {
namespace {

template <class T>
struct Document {
  const T* values;
  const std::uint8_t* mask;
  std::int64_t begin, first, last;  // first > last: no response
  T reward, v_init;

  T before(std::int64_t t) const { return t > begin ? values[t - 1] : v_init; }
};

template <class T>
Document<T> document_of(const ValueScan& args, std::int64_t d) {
  const std::int32_t* start = args.responses.doc_start_D1.data_ptr<std::int32_t>();
  const T* rewards = data_or_null<T>(args.responses.reward_D);
  Document<T> doc{args.values_N.data_ptr<T>(),
                  args.responses.mask_N.data_ptr<std::uint8_t>(),
                  start[d],
                  start[d],
                  start[d + 1] - 1,
                  rewards ? rewards[d] : T(0),
                  static_cast<T>(args.v_init)};
  while (doc.first <= doc.last && !doc.mask[doc.first]) ++doc.first;
  while (doc.last >= doc.first && !doc.mask[doc.last]) --doc.last;
  return doc;
}

template <class T>
T td0(const Document<T>& doc, T gamma, std::int64_t t) {
  return t < doc.last ? gamma * doc.values[t] - doc.before(t) : doc.reward - doc.values[t];
}

// One step of the recurrence: the number at t from that at t + 1 (0 beyond the last).
template <class T>
T step(const ValueScan& args, const Document<T>& doc, std::int64_t t, T next) {
  const T gamma = static_cast<T>(args.gamma), lambda = static_cast<T>(args.lambda);
  if (args.kind == ScanKind::lambda_return) {
    if (t == doc.last) return doc.reward;
    return gamma * ((1 - lambda) * doc.values[t + 1] + lambda * next);
  }
  const bool ends_in_reward = args.kind == ScanKind::gae_reward && t == doc.last;
  const T gain =
      ends_in_reward ? doc.reward - doc.before(t) : gamma * doc.values[t] - doc.before(t);
  return gain + gamma * lambda * next;
}

template <class T>
void scan(const ValueScan& args, const Document<T>& doc, T* out) {
  T next = 0;
  for (std::int64_t t = doc.last; t >= doc.first; --t) {
    if (args.kind == ScanKind::td0 || args.kind == ScanKind::monte_carlo) {
      if (!doc.mask[t]) continue;
      out[t] = args.kind == ScanKind::td0 ? td0(doc, static_cast<T>(args.gamma), t)
                                          : doc.reward - doc.values[t];
      continue;
    }
    next = step(args, doc, t, next);
    if (doc.mask[t]) out[t] = next;
  }
}

template <class T>
bool is_read(ScanKind kind, const Document<T>& doc, std::int64_t t) {
  switch (kind) {
    case ScanKind::td0:
      return doc.mask[t] || (t + 1 < doc.last && doc.mask[t + 1]);
    case ScanKind::gae_value:
      return true;
    case ScanKind::gae_reward:
      return t < doc.last;
    case ScanKind::monte_carlo:
      return doc.mask[t];
    case ScanKind::lambda_return:
      return t >= doc.first;
  }
  return false;
}

template <class T>
std::int32_t count_bad(ScanKind kind, const Document<T>& doc) {
  if (doc.first > doc.last) return 0;
  std::int32_t bad = 0;
  for (std::int64_t t = std::max(doc.begin, doc.first - 1); t <= doc.last; ++t)
    if (is_read(kind, doc, t) && !std::isfinite(doc.values[t])) ++bad;
  return bad;
}

}  // namespace

template <class T>
void value_scan(const ValueScan& args) {
  const std::int32_t* start = args.responses.doc_start_D1.data_ptr<std::int32_t>();
  const std::int64_t num_docs = args.responses.num_docs();
  T* out = args.out_N.data_ptr<T>();
  std::int32_t* bad = data_or_null<std::int32_t>(args.bad_D);
  parallel_for(num_docs, grain_of(start[num_docs] / num_docs), [&](auto begin, auto end) {
    for (std::int64_t d = begin; d < end; ++d) {
      const Document<T> doc = document_of<T>(args, d);
      std::fill(out + start[d], out + start[d + 1], T(0));
      scan(args, doc, out);
      if (bad) bad[d] = count_bad(args.kind, doc);
    }
  });
}

template void value_scan<float>(const ValueScan&);
template void value_scan<double>(const ValueScan&);

}  // namespace wmtp::kernels::cpu
