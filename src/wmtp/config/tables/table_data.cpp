// Rows of `dataset` and `data_sampling`.
#include "wmtp/config/tables/table.h"

namespace wmtp::config {
namespace {

void add_input_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(dataset.train), "Training files").needed().must_exist();
  add(rows, WMTP_KEY(dataset.validation), "Validation files; null = no validation").must_exist();
  add(rows, WMTP_KEY(dataset.name), "Label of the data: summary.json, report, model card");
  add(rows, WMTP_KEY(dataset.format), "auto = by file name and first row");
  add(rows, WMTP_KEY(dataset.max_length),
      "Tokens of a sequence at most; not beyond the model's positions")
      .between(8, 1048576);
  add(rows, WMTP_KEY(dataset.prompt_template), "How instruction and input become the prompt");
  add(rows, WMTP_KEY(dataset.tokenize),
      "joint: prompt and response as one text; split: each on its own");
  add(rows, WMTP_KEY(dataset.add_bos), "auto = as the tokenizer says");
  add(rows, WMTP_KEY(dataset.append_eos), "End-of-sequence token after the response");
  add(rows, WMTP_KEY(dataset.truncate), "What gives way when a row is longer than max_length");
  add(rows, WMTP_KEY(dataset.allow_special_tokens),
      "Special tokens written in the data count as such");
}

void add_batch_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(dataset.packing), "Sequences of a micro-batch lie end to end, without padding")
      .free();
  add(rows, WMTP_KEY(dataset.pack_multiple),
      "Packed length is rounded up to this; null = by device")
      .free()
      .at_least(1);
  add(rows, WMTP_KEY(dataset.pad_to), "Length of unpacked rows").free().at_least(1);
  add(rows, WMTP_KEY(dataset.max_tokens_per_batch), "Micro-batches by tokens; at least max_length")
      .free()
      .at_least(1);
}

void add_text_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(dataset.text.column), "Field of the text in JSONL rows");
  add(rows, WMTP_KEY(dataset.text.document_separator), "What ends a document in a plain text file");
  add(rows, WMTP_KEY(dataset.text.eos_between), "End-of-sequence token between documents");
  add(rows, WMTP_KEY(dataset.text.separator_id),
      "Token between documents in its place; null = the tokenizer's")
      .at_least(0);
  add(rows, WMTP_KEY(dataset.text.skip_empty), "Leave out empty documents");
  add(rows, WMTP_KEY(dataset.text.document_mask), "Attention stays inside a document");
  add(rows, WMTP_KEY(dataset.text.shuffle), "What is shuffled: blocks, documents, or nothing");
  add(rows, WMTP_KEY(dataset.text.drop_tail), "Leave out the last block when it is short");
}

void add_reading_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(dataset.train_metadata), "Row metadata of the training files").must_exist();
  add(rows, WMTP_KEY(dataset.validation_metadata), "Row metadata of the validation files")
      .must_exist();
  add(rows, WMTP_KEY(dataset.on_bad_line), "A bad row stops the run, or is skipped and counted");
  add(rows, WMTP_KEY(dataset.max_bad_fraction),
      "With skip: share of bad rows that is still accepted")
      .between(0, 0.5);
  add(rows, WMTP_KEY(dataset.max_bad_lines), "With skip: number of bad rows that is still accepted")
      .at_least(0);
  add(rows, WMTP_KEY(dataset.max_line_bytes), "A longer row is bad").between(1, 1 << 30);
  add(rows, WMTP_KEY(dataset.cache_dir),
      "Indexes and token caches; null = .wmtp-cache beside the data file, or runtime.cache_dir "
      "where that cannot be written")
      .host()
      .per_rank();
  add(rows, WMTP_KEY(dataset.auto_cache), "Write index and token cache when they are missing")
      .host();
  add(rows, WMTP_KEY(dataset.prefetch_batches), "Batches made ahead").host().between(1, 1024);
  add(rows, WMTP_KEY(dataset.loader_threads), "Threads that make batches")
      .host()
      .per_rank()
      .between(1, 256);
}

void add_sampling_rows(std::vector<Row>& rows) {
  add(rows, WMTP_KEY(data_sampling.seed), "Seed of every draw and shuffle").at_least(0);
  add(rows, WMTP_KEY(data_sampling.n_samples), "Rows (or pairs) of an epoch; null = all")
      .at_least(1);
  add(rows, WMTP_KEY(data_sampling.val_n_samples), "The same for validation; null = all")
      .at_least(1);
  add(rows, WMTP_KEY(data_sampling.shuffle), "false: rows are taken in the order of the file");
  add(rows, WMTP_KEY(data_sampling.balance_correct),
      "Draw correct and incorrect rows by correct_ratio; without n_samples the most that have it");
  add(rows, WMTP_KEY(data_sampling.correct_ratio), "Share of correct rows with balance_correct")
      .between(0, 1);
  add(rows, WMTP_KEY(data_sampling.on_shortage),
      "A bin with too few rows: stop, or take what is there");
  add(rows, WMTP_KEY(data_sampling.resample_each_epoch), "Draw the set anew each epoch");
  add(rows, WMTP_KEY(data_sampling.use_pairwise),
      "critic: samples are pairs of a correct and an incorrect row");
  add(rows, WMTP_KEY(data_sampling.max_pairs_per_problem),
      "Pairs of one problem at most; null = all")
      .at_least(1);
  add(rows, WMTP_KEY(data_sampling.use_length_balanced), "Pairs only inside one length bin");
  add(rows, WMTP_KEY(data_sampling.length_bins), "Edges of the length bins in tokens, rising")
      .at_least(0);
  add(rows, WMTP_KEY(data_sampling.difficulty_bins),
      "Named ranges of difficulty, ends included, first match wins");
  add(rows, WMTP_KEY(data_sampling.difficulty_weights),
      "Share of each bin; absent = by number of rows");
  add(rows, WMTP_KEY(data_sampling.curriculum_learning),
      "Weights change with the epoch by curriculum_schedule");
  add(rows, WMTP_KEY(data_sampling.curriculum_schedule),
      "Weights by epoch: half-open ranges that start at 0 and touch; the last one holds on");
}

}  // namespace

void add_data_rows(std::vector<Row>& rows) {
  add_input_rows(rows);
  add_batch_rows(rows);
  add_text_rows(rows);
  add_reading_rows(rows);
  add_sampling_rows(rows);
}

}  // namespace wmtp::config
