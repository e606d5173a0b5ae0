// Scans over values, statistics of responses, top-k. N tokens, D documents, M scores.
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/kernels/op_matrix.h"
#include "wmtp/core/rng.h"
#include "wmtp/kernels/response_stats.h"
#include "wmtp/kernels/top_k.h"
#include "wmtp/kernels/value_scan.h"

namespace wmtp::kernels::testing {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kNone = -7, kInit = 0.3;

// Prompts, gaps and tails by length: document d has a prompt of d % 4 tokens, gaps every 7th token,
// and none of the response in every fifth document, whose values are NaN.
const std::vector<int> kLengths{5, 0, 1, 300, 33, 32, 64, 2, 7, 700, 31, 4};

Tensors documents(const std::vector<int>& lengths) {
  std::vector<int> start{0}, mask, document;
  Tensor values = normals("values", {std::accumulate(lengths.begin(), lengths.end(), 0)}, 0.5);
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    const int length = lengths[d], prompt = std::min<int>(d % 4, length - 1);
    for (int t = 0; t < length; ++t) {
      const bool none = d % 5 == 4, gap = t % 7 == 5, tail = t > 40 && t >= length - 3;
      if (none) values.data_ptr<double>()[mask.size()] = kNaN;
      mask.push_back(t >= prompt && !none && !gap && !tail);
      document.push_back(static_cast<int>(d));
    }
    start.push_back(static_cast<int>(mask.size()));
  }
  Tensor rewards = normals("reward", {static_cast<std::int64_t>(lengths.size())});
  return {{"values", values},
          {"reward", rewards},
          {"start", at::tensor(start, at::kInt)},
          {"document", at::tensor(document, at::kInt)},
          {"mask", at::tensor(mask, at::kInt).to(kMaskType)}};
}

Responses responses_of(const Tensors& in) {
  return {in.at("start"), in.at("document"), in.at("mask"), in.at("reward")};
}

// One document as plain numbers.
struct Plain {
  std::vector<double> v;
  std::vector<bool> m;
  double reward = 0;
  int first = 0, last = -1;
  double before(int t) const { return t > 0 ? v[static_cast<std::size_t>(t - 1)] : kInit; }
};

std::vector<Plain> plain_documents(const Tensors& in) {
  std::vector<Plain> docs;
  const int* start = in.at("start").data_ptr<int>();
  for (int d = 0; d < in.at("start").numel() - 1; ++d) {
    Plain doc;
    doc.reward = in.at("reward").data_ptr<double>()[d];
    for (int i = start[d]; i < start[d + 1]; ++i) {
      doc.v.push_back(in.at("values").data_ptr<double>()[i]);
      doc.m.push_back(in.at("mask").data_ptr<std::uint8_t>()[i]);
      if (!doc.m.back()) continue;
      if (doc.last < 0) doc.first = i - start[d];
      doc.last = i - start[d];
    }
    docs.push_back(doc);
  }
  return docs;
}

// The number at t as a sum, not as a recurrence.
double defined(ScanKind kind, double gamma, double lambda, const Plain& doc, int t) {
  const auto v = [&](int i) { return doc.v[static_cast<std::size_t>(i)]; };
  if (kind == ScanKind::monte_carlo) return doc.reward - v(t);
  if (kind == ScanKind::td0)
    return t == doc.last ? doc.reward - v(t) : gamma * v(t) - doc.before(t);
  double sum = 0;
  for (int j = t; j <= doc.last; ++j) {
    const double decay = std::pow(gamma * lambda, j - t);
    if (kind == ScanKind::lambda_return)
      sum += decay * (j == doc.last ? doc.reward : gamma * (1 - lambda) * v(j + 1));
    else if (kind == ScanKind::gae_reward && j == doc.last)
      sum += decay * (doc.reward - doc.before(j));
    else
      sum += decay * (gamma * v(j) - doc.before(j));
  }
  return sum;
}

// `on_device`: lambda is read of a tensor, and not what the host says.
OpCase scan_case(const std::string& name, ScanKind kind, double gamma, double lambda,
                 const std::vector<int>& lengths = kLengths, bool on_device = false) {
  OpCase op;
  op.name =
      fmt::format("value_scan_{}_{}_{}", name, std::lround(100 * gamma), std::lround(100 * lambda));
  op.inputs = [=] { return documents(lengths); };
  op.wide = {"values", "reward"};
  op.run = [=](const Tensors& in) {
    const auto docs = responses_of(in);
    ValueScan scan{kind,
                   gamma,
                   on_device ? NAN : lambda,
                   kInit,
                   in.at("values"),
                   docs,
                   fresh_like(in.at("values")),
                   fresh({docs.num_docs()}, in.at("start").options())};
    if (on_device) scan.lambda_1 = at::full({1}, lambda, in.at("values").options());
    value_scan(scan);
    return Tensors{{"out", scan.out_N}, {"bad", scan.bad_D}};
  };
  op.oracle = [=](const Tensors& in) {
    std::vector<double> out;
    for (const Plain& doc : plain_documents(in))
      for (int t = 0; t < static_cast<int>(doc.v.size()); ++t)
        out.push_back(doc.m[static_cast<std::size_t>(t)] ? defined(kind, gamma, lambda, doc, t)
                                                         : 0);
    return Tensors{{"out", at::tensor(out, at::kDouble)},
                   {"bad", at::tensor(std::vector<int>(lengths.size(), 0), at::kInt)}};
  };
  op.tolerance_fp32 = op.tolerance_fp32_on_gpu = op.tolerance_bf16 = 5e-5;
  op.longest_sum = lengths.empty() ? 1 : *std::max_element(lengths.begin(), lengths.end());
  op.dear_oracle = op.longest_sum > 1000;  // a sum at every position
  return op;
}

void plain_stats(const Plain& doc, std::vector<double>& out) {
  std::vector<double> v, t, d;
  for (std::size_t i = 0; i < doc.v.size(); ++i) {
    if (!doc.m[i]) continue;
    v.push_back(doc.v[i]), t.push_back(static_cast<double>(i));
    if (i > 0 && doc.m[i - 1]) d.push_back(std::abs(doc.v[i] - doc.v[i - 1]));
  }
  const auto mean = [](const std::vector<double>& x) {
    double sum = 0;
    for (const double value : x) sum += value;
    return sum / static_cast<double>(x.size());
  };
  const auto product = [&](const std::vector<double>& x, const std::vector<double>& y) {
    std::vector<double> both;
    const double mean_x = mean(x), mean_y = mean(y);
    for (std::size_t i = 0; i < x.size(); ++i) both.push_back((x[i] - mean_x) * (y[i] - mean_y));
    return mean(both);
  };
  const bool has_corr = v.size() >= 3 && product(v, v) > 0;
  out.push_back(static_cast<double>(v.size()));
  out.push_back(v.empty() ? kNone : mean(v));
  out.push_back(v.empty() ? kNone : product(v, v));
  out.push_back(d.empty() ? kNone : mean(d));
  out.push_back(d.empty() ? kNone : *std::max_element(d.begin(), d.end()) / (mean(d) + 1e-8));
  out.push_back(has_corr ? product(v, t) / std::sqrt(product(v, v) * product(t, t)) : kNone);
}

OpCase stats_case(const std::vector<int>& lengths = kLengths) {
  OpCase op;
  op.name = "response_stats";
  op.inputs = [=] { return documents(lengths); };
  op.wide = {"values", "reward"};
  op.run = [](const Tensors& in) {
    const auto docs = responses_of(in);
    const Tensor stats =
        fresh({docs.num_docs(), kNumResponseStats}, in.at("values").options().dtype(kFloat64));
    response_stats(in.at("values"), docs, stats);
    return Tensors{{"stats", at::nan_to_num(stats, kNone)}};
  };
  op.oracle = [](const Tensors& in) {
    std::vector<double> out;
    for (const Plain& doc : plain_documents(in)) plain_stats(doc, out);
    return Tensors{{"stats", at::tensor(out, at::kDouble).view({-1, kNumResponseStats})}};
  };
  op.tolerance_fp32 = op.tolerance_fp32_on_gpu = op.tolerance_bf16 = 1e-12;
  op.in_fp64 = true;
  return op;
}

struct TopKShape {
  std::int64_t size, share_millionths;
  bool ties, some_invalid;
};

Tensors define_top_k(const Tensors& in, const TopKShape& shape) {
  const double* scores = in.at("scores").data_ptr<double>();
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < shape.size; ++i)
    if (!shape.some_invalid || in.at("valid").data_ptr<std::uint8_t>()[i]) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return scores[a] > scores[b]; });
  const auto n = static_cast<std::int64_t>(order.size());
  // The count from the other end: n minus the scores strictly below position ceil(h).
  const std::int64_t below =
      n == 0 ? 0 : ((n - 1) * (1'000'000 - shape.share_millionths) + 999'999) / 1'000'000;
  std::vector<double> selected(static_cast<std::size_t>(shape.size), 0);
  for (std::int64_t i = 0; i < n - below; ++i) selected[static_cast<std::size_t>(order[i])] = 1;
  double theta = 0;
  if (n > 0) {
    const double h =
        static_cast<double>(n - 1) * (1 - static_cast<double>(shape.share_millionths) / 1e6);
    const auto ascending = [&](double rank) {
      return scores[order[static_cast<std::size_t>(n - 1 - std::lround(rank))]];
    };
    const double low = std::floor(h + 1e-9), high = std::ceil(h - 1e-9);
    theta = ascending(low) + (h - low) * (ascending(high) - ascending(low));
  }
  return {{"selected", at::tensor(selected, at::kDouble)},
          {"counts",
           at::tensor(std::vector<double>{static_cast<double>(n), static_cast<double>(n - below)},
                      at::kDouble)},
          {"theta", at::tensor(std::vector<double>{theta}, at::kDouble)}};
}

OpCase top_k_case(const TopKShape& shape) {
  OpCase op;
  op.name = fmt::format("top_k_{}_{}{}{}", shape.size, shape.share_millionths,
                        shape.ties ? "_ties" : "", shape.some_invalid ? "_valid" : "");
  op.inputs = [=] {
    Tensor scores = normals("scores", {shape.size});
    if (shape.ties) scores = scores.mul(2).round().div(2);
    return Tensors{{"scores", scores},
                   {"valid", integers("valid", shape.size, 3).gt(0).to(kMaskType)}};
  };
  op.wide = {"scores"};
  op.run = [=](const Tensors& in) {
    const Tensor scores = in.at("scores"), summary = fresh({3}, scores.options().dtype(kFloat64));
    const TopK args{scores, shape.some_invalid ? in.at("valid") : Tensor(), shape.share_millionths,
                    fresh_like(scores), summary};
    top_k(args);
    return Tensors{{"selected", args.selected_M},
                   {"counts", summary.narrow(0, 0, 2)},
                   {"theta", at::nan_to_num(summary.narrow(0, 2, 1), 0.0)}};
  };
  op.oracle = [=](const Tensors& in) { return define_top_k(in, shape); };
  op.tolerance_fp32 = op.tolerance_fp32_on_gpu = op.tolerance_bf16 = 1e-12;
  op.in_fp64 = true;
  return op;
}

}  // namespace

std::vector<OpCase> value_cases() {
  std::vector<OpCase> cases{
      scan_case("td0", ScanKind::td0, .9, 1),
      scan_case("gae_value", ScanKind::gae_value, .99, .95),
      scan_case("gae_value", ScanKind::gae_value, 1, 1),
      scan_case("gae_value", ScanKind::gae_value, 1, 0),
      scan_case("gae_reward", ScanKind::gae_reward, .99, .9),
      scan_case("monte_carlo", ScanKind::monte_carlo, 1, 1),
      scan_case("lambda_return", ScanKind::lambda_return, .98, .9),
      scan_case("lambda_return", ScanKind::lambda_return, 1, 1),
      scan_case("lambda_return_on_device", ScanKind::lambda_return, .98, .9, kLengths, true),
      stats_case()};
  for (const std::int64_t size : {0, 1, 2, 31, 1024, 1025, 5000})
    for (const std::int64_t share : {1, 333'333, 600'000, 1'000'000})
      for (const bool ties : {false, true})
        for (const bool some_invalid : {false, true})
          cases.push_back(top_k_case({size, share, ties, some_invalid}));
  return cases;
}

std::vector<OpCase> value_shapes() {
  std::vector<OpCase> cases;
  const std::vector<std::vector<int>> all_lengths{{},  {0},    {0, 0, 0},
                                                  {1}, {4097}, {1, 7, 8, 9, 0, 127, 129, 4097, 0}};
  for (const auto& lengths : all_lengths) {
    cases.push_back(scan_case("td0", ScanKind::td0, .9, 1, lengths));
    cases.push_back(scan_case("gae_value", ScanKind::gae_value, 1, .95, lengths));
    cases.push_back(scan_case("gae_reward", ScanKind::gae_reward, .99, .9, lengths));
    cases.push_back(scan_case("monte_carlo", ScanKind::monte_carlo, 1, 1, lengths));
    cases.push_back(scan_case("lambda_return", ScanKind::lambda_return, .98, .9, lengths));
    cases.push_back(stats_case(lengths));
  }
  for (const std::int64_t size : kEdges)
    for (const bool ties : {false, true})
      for (const bool some_invalid : {false, true})
        cases.push_back(top_k_case({size, 333'333, ties, some_invalid}));
  return cases;
}

}  // namespace wmtp::kernels::testing
