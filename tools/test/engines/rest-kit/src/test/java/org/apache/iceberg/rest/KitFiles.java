package org.apache.iceberg.rest;

import java.io.IOException;
import java.lang.reflect.Field;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.DataFile;

/**
 * The data files that the kit appends. Their directory {@code /path/to} belongs to no table, and Sluice accepts only files in the
 * directory of their table that are stored with the size that the commit says. So they move to the table that the catalog returned
 * last, and are uploaded there with its credentials. No test reads their content.
 */
final class KitFiles {
  private static final Field PATH = pathField();
  /** Locations of tables that have the files. */
  private static final Set<String> UPLOADED = new HashSet<>();

  private static DataFile[] files = {};

  private KitFiles() {}

  static void are(DataFile... kitFiles) {
    files = kitFiles;
  }

  static void moveTo(String tableLocation, Map<String, String> access) {
    try {
      for (var file : files) {
        var name = file.location().substring(file.location().lastIndexOf('/'));
        PATH.set(file, tableLocation + "/data" + name);
      }
      if (UPLOADED.add(tableLocation)) upload(access);
    } catch (IllegalAccessException | IOException error) {
      throw new IllegalStateException(error);
    }
  }

  private static void upload(Map<String, String> access) throws IOException {
    try (var io = CatalogUtil.loadFileIO("org.apache.iceberg.aws.s3.S3FileIO", access, null)) {
      for (var file : files)
        try (var out = io.newOutputFile(file.location()).createOrOverwrite()) {
          out.write(new byte[(int) file.fileSizeInBytes()]);
        }
    }
  }

  private static Field pathField() {
    try {
      var field = Class.forName("org.apache.iceberg.BaseFile").getDeclaredField("filePath");
      field.setAccessible(true);
      return field;
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }
}
