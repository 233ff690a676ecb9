package org.apache.iceberg.rest;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.catalog.TableIdentifier;

/** A branch of Sluice for one test of the kit. Its end removes the namespaces that the test created, too. */
final class KitBranch implements AutoCloseable {
  private static final String PREFIX = "rck-";
  private static final HttpClient HTTP = HttpClient.newHttpClient();

  private final String name = PREFIX + UUID.randomUUID();
  private final SluiceNames names = new SluiceNames();
  private final List<RESTCatalog> catalogs = new ArrayList<>();
  private RESTCatalog catalog;

  KitBranch() {
    send("POST", "/branches", "{\"name\": \"" + name + "\"}");
  }

  /** The catalog of the branch, with the kit's own settings. */
  RESTCatalog catalog() {
    if (catalog == null) catalog = catalog("rck_catalog", Map.of());
    return catalog;
  }

  RESTCatalog catalog(String catalogName, Map<String, String> additional) {
    var opened =
        new RESTCatalog(
            config ->
                new SluiceClient(
                    HTTPClient.builder(config)
                        .uri(config.get(CatalogProperties.URI))
                        .withHeaders(RESTUtil.configHeaders(config))
                        .build(),
                    names));
    catalogs.add(opened);
    opened.initialize(catalogName, kitProperties(additional));
    return opened;
  }

  /** A location that Sluice accepts for the table: a directory of the table that no other branch has used. */
  String location(TableIdentifier table) {
    var named = names.table(table);
    return String.format(
        "%s_lake/%s/%s/%s-%s",
        catalog().properties().get("root"),
        named.namespace().level(0),
        named.namespace().level(1),
        named.name(),
        name.substring(PREFIX.length(), PREFIX.length() + 8));
  }

  @Override
  public void close() throws IOException {
    for (var each : catalogs) each.close();
    send("DELETE", "/branches/" + name, "");
    for (var namespace : names.created()) send("DELETE", "/namespaces/" + namespace, "");
  }

  private Map<String, String> kitProperties(Map<String, String> additional) {
    var properties = new HashMap<>(additional);
    properties.put(CatalogProperties.WAREHOUSE_LOCATION, "sluice@" + name);
    try (var own = RCKUtils.initCatalogClient(properties)) {
      return own.properties();
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  private static void send(String method, String path, String body) {
    var request =
        HttpRequest.newBuilder(URI.create(System.getProperty("sluice.url") + "/api/v1" + path))
            .method(method, body.isEmpty() ? BodyPublishers.noBody() : BodyPublishers.ofString(body))
            .header("content-type", "application/json")
            .build();
    try {
      var answer = HTTP.send(request, BodyHandlers.ofString());
      if (answer.statusCode() >= 300 && answer.statusCode() != 404)
        throw new IllegalStateException(method + " " + path + ": " + answer.body());
    } catch (IOException | InterruptedException error) {
      throw new IllegalStateException(error);
    }
  }
}
