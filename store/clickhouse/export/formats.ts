/** The formats that ClickHouse writes an export in. */
export const exportFormats = ['parquet', 'arrow', 'csv', 'jsonl'] as const

export type ExportFormat = (typeof exportFormats)[number]

/** What a reader of the format needs to know, and how ClickHouse names it. */
export const formats: Record<ExportFormat, { name: string; contentType: string; extension: string }> = {
  parquet: { name: 'Parquet', contentType: 'application/vnd.apache.parquet', extension: 'parquet' },
  // The streaming form: record batches are readable while they arrive.
  arrow: { name: 'ArrowStream', contentType: 'application/vnd.apache.arrow.stream', extension: 'arrows' },
  csv: { name: 'CSVWithNames', contentType: 'text/csv; charset=utf-8', extension: 'csv' },
  jsonl: { name: 'JSONEachRow', contentType: 'application/x-ndjson', extension: 'jsonl' },
}

/**
 * The end of a query that exports: in CSV an absent value is an empty field and an empty text is quoted; in JSON NaN and the
 * infinities are text, for JSON has no form for them. Simple readers of Arrow know no compression. Bloom filters are a third to
 * half of a Parquet file and of the time that it takes: readers of a sorted table have its minima and maxima.
 */
export const formatClause = (format: ExportFormat) =>
  `SETTINGS output_format_json_quote_denormals = 1, output_format_json_quote_64bit_integers = 0,
    output_format_json_escape_forward_slashes = 0, format_csv_null_representation = '', date_time_output_format = 'iso',
    output_format_arrow_compression_method = 'none', output_format_parquet_write_bloom_filter = 0
  FORMAT ${formats[format].name}`
