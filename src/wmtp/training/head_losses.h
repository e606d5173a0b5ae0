// The prediction heads' part of a step: head by head forward, loss and backward, with the sums that
// the loss and its metrics are made of (slot "head<k>", losses::HeadSum). M rows of a head with a
// target.
#pragma once
#include <functional>
#include <vector>

#include "wmtp/losses/mtp_cross_entropy.h"
#include "wmtp/model/transformer.h"
#include "wmtp/training/objective.h"

namespace wmtp::training {

// How a head's rows count.
struct RowWeights {
  Tensor weight_M;    // fp32 (fp64); undefined: 1 everywhere
  Tensor selected_C;  // int32, ascending: the only rows whose weight is not 0; undefined: any
};
// `nll_M` is defined for heads that ask for it (see HeadLosses::run): selection by loss.
using WeighRows = std::function<RowWeights(int head, const Tensor& nll_M)>;
RowWeights uniform_rows(int head, const Tensor& nll_M);
// Told every head's losses once they are known, with the weights they got.
using SeeRows = std::function<void(int head, const Tensor& nll_M, const RowWeights&)>;

// Of each row of the head what values of all tokens are at its target; 0 where it has none.
Tensor at_targets(const Tensor& values_N, const model::Batch& batch, int head);

class HeadLosses {
 public:
  HeadLosses(std::int64_t num_heads, losses::Normalization normalization)
      : num_heads_(static_cast<int>(num_heads)), normalization_(normalization) {}
  static std::string slot(int head);

  void add_slots(TotalsLayout& layout) const;
  // s_k of every head, fixed before the first backward.
  void set_scales(std::span<const double> normalizers, const Tensor& loss_scale);
  void set_scales(const Tensor& normalizers_H, const Tensor& loss_scale);

  // Forward and backward of all heads; adds to trunk.dhidden_ND. Heads from `first_selected` on are
  // weighed with their NLL at hand: one forward of the head, its logits twice.
  void run(model::Transformer& model, model::TrunkPass& trunk, const model::Batch& batch,
           const WeighRows& weigh, int first_selected, Totals& totals, const SeeRows& see = {});
  // Forward only; every head's NLL is at hand.
  void evaluate(model::Transformer& model, const model::TrunkPass& trunk, const model::Batch& batch,
                const WeighRows& weigh, Totals& totals);

  // L, Lu and the heads' own losses of the step or set.
  std::optional<losses::MtpLoss> read(const HostTotals& totals) const;
  // `<prefix>/head<k>_loss` for each head that has one.
  static void add_head_metrics(const losses::MtpLoss& loss, std::string_view prefix,
                               Metrics& metrics);

  int num_heads() const { return num_heads_; }
  losses::Normalization normalization() const { return normalization_; }

 private:
  Tensor scale_of(int head, const Tensor& weight_M) const;

  int num_heads_;
  losses::Normalization normalization_;
  std::vector<double> scales_;
  Tensor device_scales_H_;  // instead, where only the device knows the normalisers
  Tensor loss_scale_;
};

}  // namespace wmtp::training
