/** Tests of the kit that Sluice does not pass, with the reason. `docs/engines.md` has the same table for readers. */
export const REST_KIT_LIMITS: readonly { reason: string; tests: readonly string[] }[] = [
  {
    reason: 'branches share the files of a table, so gc.enabled stays false and engines remove no snapshot',
    tests: [
      'testRemoveUnusedSchemas(boolean)[1]',
      'testRemoveUnusedSchemas(boolean)[2]',
      'testRemoveUnusedSpec(boolean)[1]',
      'testRemoveUnusedSpec(boolean)[2]',
    ],
  },
  {
    reason: 'tables have format version 2 or 3',
    tests: ['createTableTransaction(int)[1]', 'replaceTableTransaction(int)[1]'],
  },
  {
    reason: 'the location of a table cannot change',
    tests: ['testCompleteCreateOrReplaceTransactionReplace', 'testCompleteReplaceTransaction'],
  },
  {
    reason: 'data files must be in the directory of their table',
    tests: ['testCatalogWithCustomMetricsReporter', 'testCompleteCreateTransactionMultipleSchemas'],
  },
  {
    reason: 'a data file has the size that its commit says, and the test writes empty files',
    tests: ['dropAfterRenameDoesntCorruptTable'],
  },
  {
    reason: 'names of tables have no capital letters',
    tests: ['renameTableNamespaceMissing'],
  },
  {
    reason: 'the test moves a metadata file in the file system, but the files are behind S3',
    tests: ['testLoadTableWithMissingMetadataFile(Path)'],
  },
]
