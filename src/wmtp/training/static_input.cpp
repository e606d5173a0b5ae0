#include "wmtp/training/static_input.h"

#include "wmtp/core/error.h"

namespace wmtp::training {
namespace {

// Calls visit(a, b) with each tensor that the model reads, of two batches of one shape.
template <class Batch, class Visit>
void visit_model(Batch& a, const model::Batch& b, const Visit& visit) {
  visit(a.tokens_N, b.tokens_N);
  visit(a.documents.start_device, b.documents.start_device);
  visit(a.rope.cos_NF, b.rope.cos_NF);
  visit(a.rope.sin_NF, b.rope.sin_NF);
  for (std::size_t head = 0; head < a.heads.size(); ++head) {
    visit(a.heads[head].rows_M, b.heads[head].rows_M);
    visit(a.heads[head].targets_M, b.heads[head].targets_M);
    visit(a.heads[head].present_M, b.heads[head].present_M);
  }
  if (!a.dropout) return;
  visit(a.dropout->streams_SD, b.dropout->streams_SD);
  visit(a.dropout->document_N, b.dropout->document_N);
  visit(a.dropout->position_N, b.dropout->position_N);
}

// And with each that the stages read.
template <class Batch, class Visit>
void visit_tensors(Batch& a, const DeviceBatch& b, const Visit& visit) {
  visit_model(a.model, b.model, visit);
  visit(a.docs.doc_start_D1, b.docs.doc_start_D1);
  visit(a.docs.document_N, b.docs.document_N);
  visit(a.docs.mask_N, b.docs.mask_N);
  visit(a.docs.reward_D, b.docs.reward_D);
  visit(a.pair_role_D, b.pair_role_D);
  visit(a.ref_nll_N, b.ref_nll_N);
  visit(a.value_N, b.value_N);
  visit(a.drawn_N, b.drawn_N);
}

DeviceBatch copied(const DeviceBatch& batch) {
  DeviceBatch copy(batch.model);
  visit_tensors(copy, batch, [](Tensor& to, const Tensor& from) {
    if (from.defined()) to = from.clone();
  });
  return copy;
}

// Which of its signals a batch brings.
std::int64_t presence(const DeviceBatch& batch) {
  std::int64_t bits = 0;
  for (const Tensor& signal_N : {batch.ref_nll_N, batch.value_N, batch.drawn_N})
    bits = 2 * bits + (signal_N.defined() ? 1 : 0);
  return bits;
}

}  // namespace

ShapeKey shape_key(std::span<const DeviceBatch> batches) {
  ShapeKey key{static_cast<std::int64_t>(batches.size())};
  for (const DeviceBatch& batch : batches) {
    const kernels::Documents& documents = batch.model.documents;
    key.insert(key.end(), {batch.model.num_tokens(), std::ssize(documents.start),
                           documents.max_length, documents.uniform ? 1 : 0});
    for (const model::HeadTargets& head : batch.model.heads) key.push_back(head.count());
    key.push_back(batch.model.dropout ? batch.model.dropout->streams_SD.numel() : 0);
    const Tensor& start_D1 = batch.docs.doc_start_D1;
    key.insert(key.end(), {start_D1.defined() ? start_D1.numel() : 0, presence(batch)});
  }
  return key;
}

StaticInput::StaticInput(const StepFacts& facts, std::span<const DeviceBatch> batches)
    : facts_(facts) {
  WMTP_CHECK(facts.numbers.defined() && !facts.loss_scale.defined(),
             "a step is recorded whose numbers are the host's, or that has a loss scale");
  facts_.numbers = facts.numbers.clone();
  for (const DeviceBatch& batch : batches) batches_.push_back(copied(batch));
}

void StaticInput::copy(const StepFacts& facts, std::span<const DeviceBatch> batches) {
  WMTP_CHECK(shape_key(batches) == shape_key(batches_), "a step of other shapes was recorded");
  facts_.numbers.copy_(facts.numbers);
  for (std::size_t i = 0; i < batches_.size(); ++i)
    visit_tensors(batches_[i], batches[i], [](const Tensor& to, const Tensor& from) {
      if (from.defined()) to.copy_(from);
    });
}

std::span<const DeviceBatch> StaticInput::batches() {
  for (DeviceBatch& batch : batches_) kernels::starts_changed(batch.model.documents);
  return batches_;
}

}  // namespace wmtp::training
